"""Client of one Headroom server.

Questions, stored resources and measurements, typed, patient and safe to repeat. A refusal is raised
as a ``ProblemError``; what does not fit is an answer. Every method may raise ``HeadroomError``, and
ValueError for what no request can carry.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from types import TracebackType
from typing import Self

import httpx

from service.client.asking import Gpu, Layout, Model, Plain, Workload, build_body, to_json
from service.client.bearer import format_bearer
from service.client.errors import ProblemError, make_problem
from service.client.generated.api.calibrations import list_calibrations, read_accuracy
from service.client.generated.api.ceilings import ceiling
from service.client.generated.api.explain import explain
from service.client.generated.api.fit import fit, fit_batch
from service.client.generated.api.gpus import list_gpus
from service.client.generated.api.how_many import ask_how_many
from service.client.generated.api.measurements import (
    create_measurement,
    import_measurements,
    read_measurement,
)
from service.client.generated.api.models import list_families
from service.client.generated.api.operations import version
from service.client.generated.api.plans import plan
from service.client.generated.api.workers import list_workers
from service.client.generated.models import (
    AccuracyAnswer,
    BatchAnswerItemsItemType1,
    CalibrationAnswer,
    CeilingAnswer,
    CeilingRequest,
    DryRunAnswer,
    ExplainAnswer,
    ExplainRequest,
    FamilyAnswer,
    FitAnswer,
    FitRequest,
    GpuAnswer,
    HowManyAnswer,
    ImportAnswer,
    ImportRequest,
    MeasurementAnswer,
    MeasurementRequest,
    ModelFamilyAnswer,
    PlanAnswer,
    PlanRequest,
    VersionAnswer,
    WorkerAnswer,
)
from service.client.generated.types import Call
from service.client.measuring import Job, build_measurement
from service.client.naming import DEFAULT_SERVER, check_address
from service.client.retrying import Repeat, Retries
from service.client.stored import PAGE, Clusters, Models, Reservations, T, iter_items
from service.client.transport import CONNECT_TIMEOUT_S, Transport, expect

CHUNK = 10_000
"""Questions of one batch, the most that the server answers in one call."""
TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """Address of a server, and what every request to it has."""

    address: str
    timeout: httpx.Timeout
    headers: Mapping[str, str]


def read_server(url: str | None, *, api_key: str | None, timeout_s: float) -> Server:
    """Return the server that is named, or the usual one.

    The environment names one where the caller does not. Raises ValueError for what is no address
    or no key.
    """
    address = url or os.environ.get("HEADROOM_URL") or DEFAULT_SERVER
    check_address(address)
    key = api_key or os.environ.get("HEADROOM_API_KEY")
    return Server(
        address=address,
        timeout=httpx.Timeout(timeout_s, connect=CONNECT_TIMEOUT_S),
        headers={"accept": "application/json"}
        | ({"authorization": format_bearer(key)} if key else {}),
    )


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
        """Connect to the server at ``url`` with ``api_key``.

        Without ``url`` it is HEADROOM_URL's, else the usual one; without ``api_key`` the key is
        HEADROOM_API_KEY. ``http`` stands in for the network, for certificates of one's own or in
        tests. White space around a key is left out. Raises ValueError for no address, and for a key
        that is none.
        """
        server = read_server(url, api_key=api_key, timeout_s=timeout_s)
        client = httpx.Client(
            base_url=server.address,
            timeout=server.timeout,
            headers=server.headers,
            transport=http,
        )
        self._transport = Transport(client, retries or Retries())
        self.models = Models(self._transport)
        self.clusters = Clusters(self._transport)

    def __enter__(self) -> Self:
        """Use the client until the block ends."""
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        """Close every connection."""
        self.close()

    def close(self) -> None:
        """Close every connection."""
        self._transport.close()

    def fit(
        self, model: Model, *, workload: Workload, gpu: Gpu, layout: Layout | None = None
    ) -> FitAnswer:
        """Check whether a workload fits, and why."""
        return self._ask(
            fit.call(body=build_body(model=model, workload=workload, gpu=gpu, layout=layout))
        )

    def fit_many(
        self, questions: Iterable[FitRequest | Plain], *, detail: str | None = None
    ) -> Iterator[FitAnswer | ProblemError]:
        """Yield one answer per question, in order.

        A bad question yields its ProblemError and spoils no other. Questions are sent 10,000 at a
        time and read as they are needed. ``detail`` is ``numbers`` (the default) or ``full``.
        """
        pending = iter(questions)
        while chunk := [to_json(entry) for entry in islice(pending, CHUNK)]:
            for item in self._ask(
                fit_batch.call(body=build_body(items=chunk, detail=detail))
            ).items:
                yield read_item(item)

    def how_many(
        self,
        model: Model,
        *,
        workload: Workload,
        gpu: Gpu,
        layout: Layout | None = None,
        constraints: Plain | None = None,
    ) -> HowManyAnswer | FamilyAnswer:
        """Return how many GPUs a workload needs.

        A family name (``A100``) is answered once per SKU.
        """
        body = build_body(
            model=model, workload=workload, gpu=gpu, layout=layout, constraints=constraints
        )
        return self._ask(ask_how_many.call(body=body))

    def plan(self, request: PlanRequest | Plain) -> PlanAnswer:
        """Return the best GPUs and the layout on them.

        On a price list, or on a cluster as it is now.
        """
        return self._ask(plan.call(body=to_json(request)))

    def ceiling(self, request: CeilingRequest | Plain) -> CeilingAnswer:
        """Return the largest batch, sequence, load, rank or model that still fits."""
        return self._ask(ceiling.call(body=to_json(request)))

    def explain(self, request: ExplainRequest | Plain) -> ExplainAnswer:
        """Return why a run failed for memory, and what would have fitted."""
        return self._ask(explain.call(body=to_json(request)))

    def gpus(self) -> Iterator[GpuAnswer]:
        """Yield the GPUs of the catalogue."""
        return iter_items(self._transport, lambda cursor: list_gpus.call(limit=PAGE, cursor=cursor))

    def families(self) -> Iterator[ModelFamilyAnswer]:
        """Yield the families of models, and what is modelled of each."""
        return iter_items(
            self._transport, lambda cursor: list_families.call(limit=PAGE, cursor=cursor)
        )

    def reservations(self, cluster: str) -> Reservations:
        """Return the reservations of a cluster."""
        return Reservations(self._transport, cluster)

    def measure(
        self, request: MeasurementRequest | Plain, *, idempotency_key: str | None = None
    ) -> Job:
        """Ask for a measurement and return its job.

        The same key asks for the same measurement again.
        """
        first = self._ask(build_measurement(request, idempotency_key))
        return Job(self._transport, expect(first, MeasurementAnswer))

    def dry_run(self, request: MeasurementRequest | Plain) -> DryRunAnswer:
        """Return what a measurement would run, and for how long.

        Nothing is asked for.
        """
        answer = self._ask(create_measurement.call(body={**to_json(request), "dry_run": True}))
        return expect(answer, DryRunAnswer)

    def measurement(self, measurement_id: str) -> Job:
        """Return a measurement that was asked for before."""
        return Job(self._transport, self._ask(read_measurement.call(measurement_id)))

    def import_measurements(self, request: ImportRequest | Plain) -> ImportAnswer:
        """Import a file of measurements.

        Nothing is stored unless ``dry_run`` is false, and what is known is not stored twice.
        """
        return self._transport.send(
            import_measurements.call(body=to_json(request)), Repeat.IF_NOT_DONE
        ).value

    def workers(self) -> Iterator[WorkerAnswer]:
        """Yield the workers that were seen."""
        return iter(self._ask(list_workers.call()).items)

    def calibrations(self) -> Iterator[CalibrationAnswer]:
        """Yield what was learnt from measurements."""
        return iter_items(
            self._transport, lambda cursor: list_calibrations.call(limit=PAGE, cursor=cursor)
        )

    def accuracy(self) -> AccuracyAnswer:
        """Return the error of the estimator on everything that was measured."""
        return self._ask(read_accuracy.call())

    def version(self) -> VersionAnswer:
        """Return the version of the server."""
        return self._ask(version.call())

    def _ask(self, call: Call[T]) -> T:
        """Send a call that may always be repeated.

        It changes nothing, or carries a key of its own.
        """
        return self._transport.send(call, Repeat.ALWAYS).value


def read_item(item: FitAnswer | BatchAnswerItemsItemType1) -> FitAnswer | ProblemError:
    """Return an answer of a batch, or the refusal of its question."""
    if isinstance(item, FitAnswer):
        return item
    problem = item.problem.to_dict()
    return make_problem(problem["status"], problem)
