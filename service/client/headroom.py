"""The client: questions, stored resources and measurements of one Headroom server, typed, patient and safe to repeat.

A refusal is raised as a ``ProblemError``; what does not fit is an answer. Every method may raise ``HeadroomError``, and
ValueError for what no request can carry.
"""

import os
from collections.abc import Iterable, Iterator
from itertools import islice
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit
from uuid import uuid4

import httpx
from attrs import evolve

from service.client.asking import Gpu, Layout, Model, Plain, Workload, plain, question
from service.client.bearer import bearer
from service.client.errors import ProblemError, problem_from
from service.client.flat import flat
from service.client.generated.api.calibrations import list_calibrations, read_accuracy
from service.client.generated.api.ceilings import ceiling
from service.client.generated.api.fit import fit, fit_batch
from service.client.generated.api.gpus import list_gpus
from service.client.generated.api.how_many import how_many
from service.client.generated.api.measurements import create_measurement, import_measurements, read_measurement
from service.client.generated.api.operations import version
from service.client.generated.api.plans import plan
from service.client.generated.api.workers import list_workers
from service.client.generated.models import (
    AccuracyAnswer,
    CalibrationAnswer,
    CeilingAnswer,
    CeilingRequest,
    DryRunAnswer,
    FamilyAnswer,
    FitAnswer,
    FitRequest,
    GpuAnswer,
    HowManyAnswer,
    ImportAnswer,
    ImportRequest,
    MeasurementAnswer,
    MeasurementRequest,
    PlanAnswer,
    PlanRequest,
    VersionAnswer,
    WorkerAnswer,
)
from service.client.generated.types import Call
from service.client.measuring import Job
from service.client.retrying import Repeat, Retries
from service.client.stored import PAGE, Clusters, Models, Reservations, T, every
from service.client.transport import CONNECT_TIMEOUT_S, Transport

DEFAULT_SERVER = "http://127.0.0.1:8000"
CHUNK = 10_000
"""Questions of one batch, the most that the server answers in one call."""
TIMEOUT_S = 60.0


class Headroom:
    """One server, and one key for it."""

    def __init__(
        self,
        url: str | None = None,
        *,
        api_key: str | None = None,
        timeout_s: float = TIMEOUT_S,
        retries: Retries | None = None,
        http: httpx.BaseTransport | None = None,
    ) -> None:
        """Talk to the server at ``url``, else to HEADROOM_URL's, else to the usual one, with ``api_key`` or HEADROOM_API_KEY.

        ``http`` stands in for the network, for certificates of one's own or in tests. White space around a key is left out.
        Raises ValueError for no address, and for a key that is none.
        """
        address = url or os.environ.get("HEADROOM_URL") or DEFAULT_SERVER
        _check(address)
        key = api_key or os.environ.get("HEADROOM_API_KEY")
        client = httpx.Client(
            base_url=address,
            timeout=httpx.Timeout(timeout_s, connect=CONNECT_TIMEOUT_S),
            headers={"accept": "application/json"} | ({"authorization": bearer(key)} if key else {}),
            transport=http,
        )
        self._transport = Transport(client, retries or Retries())
        self.models = Models(self._transport)
        self.clusters = Clusters(self._transport)

    def __enter__(self) -> Self:
        """Use the client until the block ends."""
        return self

    def __exit__(self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None) -> None:
        """Close every connection."""
        self.close()

    def close(self) -> None:
        """Close every connection."""
        self._transport.close()

    def fit(self, model: Model, *, workload: Workload, gpu: Gpu, layout: Layout | None = None) -> FitAnswer:
        """Say whether a workload fits, and why."""
        return self._ask(fit.call(body=question(model=model, workload=workload, gpu=gpu, layout=layout)))

    def fit_many(
        self, questions: Iterable[FitRequest | Plain], *, detail: str | None = None
    ) -> Iterator[FitAnswer | ProblemError]:
        """Yield one answer per question, in order; a bad question yields its ProblemError and spoils no other.

        Questions are sent 10,000 at a time and read as they are needed. ``detail`` is ``numbers`` (the default) or ``full``.
        """
        pending = iter(questions)
        while chunk := [plain(asked) for asked in islice(pending, CHUNK)]:
            for item in self._ask(fit_batch.call(body=question(items=chunk, detail=detail))).items:
                if isinstance(item, FitAnswer):
                    yield item
                else:
                    problem = item.problem.to_dict()
                    yield problem_from(problem["status"], problem)

    def how_many(
        self, model: str, *, workload: Workload, gpu: Gpu, layout: Layout | None = None, constraints: Plain | None = None
    ) -> HowManyAnswer | FamilyAnswer:
        """Say how many GPUs a workload needs; a family name (``A100``) is answered once per SKU."""
        named = {"gpu": gpu} if isinstance(gpu, str) else plain(gpu)
        words = question(model=model, workload=workload, layout=layout, constraints=constraints) | named
        task = str(words["workload"].get("task", ""))
        return self._ask(evolve(how_many.call(model=model, task=task), params=flat(words)))

    def plan(self, asked: PlanRequest | Plain) -> PlanAnswer:
        """Return the best GPUs and the layout on them, on a price list or on a cluster as it is now."""
        return self._ask(plan.call(body=plain(asked)))

    def ceiling(self, asked: CeilingRequest | Plain) -> CeilingAnswer:
        """Return the largest batch, sequence, load, rank or model that still fits."""
        return self._ask(ceiling.call(body=plain(asked)))

    def gpus(self) -> Iterator[GpuAnswer]:
        """Yield the GPUs of the catalogue."""
        return every(self._transport, lambda cursor: list_gpus.call(limit=PAGE, cursor=cursor))

    def reservations(self, cluster: str) -> Reservations:
        """Return the reservations of a cluster."""
        return Reservations(self._transport, cluster)

    def measure(self, asked: MeasurementRequest | Plain, *, idempotency_key: str | None = None) -> Job:
        """Ask for a measurement and return it to be followed; the same key asks for the same measurement again."""
        body = plain(asked)
        if body.get("dry_run"):
            message = "a dry run measures nothing, so there is nothing to be followed: ask dry_run() for what would be run"
            raise ValueError(message)
        first = self._ask(create_measurement.call(body=body, idempotency_key=idempotency_key or str(uuid4())))
        assert isinstance(first, MeasurementAnswer)  # noqa: S101 - what is answered to all but a dry run
        return Job(self._transport, first)

    def dry_run(self, asked: MeasurementRequest | Plain) -> DryRunAnswer:
        """Return what a measurement would run, and how long that would take; nothing is asked for."""
        found = self._ask(create_measurement.call(body={**plain(asked), "dry_run": True}))
        assert isinstance(found, DryRunAnswer)  # noqa: S101 - what is answered to a dry run
        return found

    def measurement(self, measurement_id: str) -> Job:
        """Return a measurement that was asked for before."""
        return Job(self._transport, self._ask(read_measurement.call(measurement_id)))

    def import_measurements(self, asked: ImportRequest | Plain) -> ImportAnswer:
        """Read a file of the field; nothing is stored unless ``dry_run`` is false, and what is known is not stored twice."""
        return self._transport.send(import_measurements.call(body=plain(asked)), Repeat.IF_NOT_DONE).value

    def workers(self) -> Iterator[WorkerAnswer]:
        """Yield the workers that were seen."""
        return iter(self._ask(list_workers.call()).items)

    def calibrations(self) -> Iterator[CalibrationAnswer]:
        """Yield what was learnt from measurements."""
        return every(self._transport, lambda cursor: list_calibrations.call(limit=PAGE, cursor=cursor))

    def accuracy(self) -> AccuracyAnswer:
        """Return the error of the estimator on everything that was measured."""
        return self._ask(read_accuracy.call())

    def version(self) -> VersionAnswer:
        """Say what runs there."""
        return self._ask(version.call())

    def _ask(self, call: Call[T]) -> T:
        """Send what changes nothing, or carries a key of its own."""
        return self._transport.send(call, Repeat.ALWAYS).value


def _check(address: str) -> None:
    try:
        parsed = urlsplit(address)
        fits = parsed.scheme in {"http", "https"} and bool(parsed.hostname) and (parsed.port or 1) > 0
    except ValueError:
        fits = False
    if not fits:
        message = f"{address!r} is no address of a server; it must be like {DEFAULT_SERVER}"
        raise ValueError(message)
