"""Asynchronous client of one Headroom server.

The same questions and answers as ``Headroom``'s, over connections that hold no thread; refusals,
retries and keys are the same. What is stored is changed through ``Headroom``.
"""

from collections.abc import AsyncIterator, Callable, Iterable
from itertools import islice
from types import TracebackType
from typing import Self

import anyio
import httpx

from service.client.asking import Gpu, Layout, Model, Plain, Workload, build_body, to_json
from service.client.errors import NotOverError, ProblemError
from service.client.generated.api.calibrations import list_calibrations, read_accuracy
from service.client.generated.api.ceilings import ceiling
from service.client.generated.api.clusters import list_clusters, read_cluster
from service.client.generated.api.explain import explain
from service.client.generated.api.fit import fit, fit_batch
from service.client.generated.api.gpus import list_gpus
from service.client.generated.api.how_many import ask_how_many
from service.client.generated.api.measurements import (
    cancel_measurement,
    create_measurement,
    read_measurement,
)
from service.client.generated.api.models import list_families, list_models, read_model
from service.client.generated.api.operations import version
from service.client.generated.api.plans import plan
from service.client.generated.api.workers import list_workers
from service.client.generated.models import (
    AccuracyAnswer,
    CalibrationAnswer,
    CeilingAnswer,
    CeilingRequest,
    ClusterAnswer,
    DryRunAnswer,
    ExplainAnswer,
    ExplainRequest,
    FamilyAnswer,
    FitAnswer,
    FitRequest,
    GpuAnswer,
    HowManyAnswer,
    MeasurementAnswer,
    MeasurementRequest,
    ModelAnswer,
    ModelFamilyAnswer,
    ModelItem,
    PlanAnswer,
    PlanRequest,
    VersionAnswer,
    WorkerAnswer,
)
from service.client.generated.types import UNSET, Call, Unset
from service.client.headroom import (
    CHUNK,
    TIMEOUT_S,
    read_item,
    read_server,
)
from service.client.measuring import OVER, build_measurement
from service.client.naming import check_path
from service.client.retrying import Repeat, Retries, retry_after_s
from service.client.stored import PAGE, Page, T
from service.client.transport import (
    build_refusal,
    build_unreachable,
    expect,
    read_received,
    translate_errors,
)

POLL_S = 1.0
"""How often a measurement is looked at while it is waited for."""


class AsyncHeadroom:
    """One server, and one key for it; every call is awaited."""

    def __init__(
        self,
        url: str | None = None,
        *,
        api_key: str | None = None,
        timeout_s: float = TIMEOUT_S,
        retries: Retries | None = None,
        http: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """Connect to the server at ``url`` with ``api_key``.

        Both come from HEADROOM_URL and HEADROOM_API_KEY where they are not said. ``http`` stands in
        for the network. Raises ValueError for no address, and for a key that is none.
        """
        server = read_server(url, api_key=api_key, timeout_s=timeout_s)
        self._client = httpx.AsyncClient(
            base_url=server.address,
            timeout=server.timeout,
            headers=server.headers,
            transport=http,
        )
        self._retries = retries or Retries()

    async def __aenter__(self) -> Self:
        """Use the client until the block ends."""
        return self

    async def __aexit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        """Close every connection."""
        await self._client.aclose()

    async def fit(
        self, model: Model, *, workload: Workload, gpu: Gpu, layout: Layout | None = None
    ) -> FitAnswer:
        """Check whether a workload fits, and why."""
        body = build_body(model=model, workload=workload, gpu=gpu, layout=layout)
        return await self.send(fit.call(body=body))

    async def fit_many(
        self, questions: Iterable[FitRequest | Plain], *, detail: str | None = None
    ) -> AsyncIterator[FitAnswer | ProblemError]:
        """Yield one answer per question, in order.

        A bad question yields its ProblemError and spoils no other.
        """
        pending = iter(questions)
        while chunk := [to_json(entry) for entry in islice(pending, CHUNK)]:
            answer = await self.send(fit_batch.call(body=build_body(items=chunk, detail=detail)))
            for item in answer.items:
                yield read_item(item)

    async def how_many(
        self,
        model: Model,
        *,
        workload: Workload,
        gpu: Gpu,
        layout: Layout | None = None,
        constraints: Plain | None = None,
    ) -> HowManyAnswer | FamilyAnswer:
        """Return how many GPUs a workload needs.

        A family name is answered once per SKU.
        """
        body = build_body(
            model=model, workload=workload, gpu=gpu, layout=layout, constraints=constraints
        )
        return await self.send(ask_how_many.call(body=body))

    async def plan(self, request: PlanRequest | Plain) -> PlanAnswer:
        """Return the best GPUs and the layout on them."""
        return await self.send(plan.call(body=to_json(request)))

    async def ceiling(self, request: CeilingRequest | Plain) -> CeilingAnswer:
        """Return the largest batch, sequence, load, rank or model that still fits."""
        return await self.send(ceiling.call(body=to_json(request)))

    async def explain(self, request: ExplainRequest | Plain) -> ExplainAnswer:
        """Return why a run failed for memory, and what would have fitted."""
        return await self.send(explain.call(body=to_json(request)))

    def gpus(self) -> AsyncIterator[GpuAnswer]:
        """Yield the GPUs of the catalogue."""
        return self._iterate(lambda cursor: list_gpus.call(limit=PAGE, cursor=cursor))

    def families(self) -> AsyncIterator[ModelFamilyAnswer]:
        """Yield the families of models, and what is modelled of each."""
        return self._iterate(lambda cursor: list_families.call(limit=PAGE, cursor=cursor))

    def models(self) -> AsyncIterator[ModelItem]:
        """Yield every model, the stored ones first."""
        return self._iterate(lambda cursor: list_models.call(limit=PAGE, cursor=cursor))

    async def model(self, name: str) -> ModelAnswer:
        """Return a model as it is now; raises NotFoundError."""
        return await self.send(read_model.call(name))

    def clusters(self) -> AsyncIterator[ClusterAnswer]:
        """Yield every cluster, without its nodes."""
        return self._iterate(lambda cursor: list_clusters.call(limit=PAGE, cursor=cursor))

    async def cluster(self, name: str) -> ClusterAnswer:
        """Return a cluster with what is free on it now; raises NotFoundError."""
        return await self.send(read_cluster.call(name))

    async def measure(
        self, request: MeasurementRequest | Plain, *, idempotency_key: str | None = None
    ) -> MeasurementAnswer:
        """Ask for a measurement.

        The same key asks for the same one again. Raises ValueError for a dry run.
        """
        answer = await self.send(build_measurement(request, idempotency_key))
        return expect(answer, MeasurementAnswer)

    async def dry_run(self, request: MeasurementRequest | Plain) -> DryRunAnswer:
        """Return what a measurement would run; nothing is asked for."""
        answer = await self.send(
            create_measurement.call(body={**to_json(request), "dry_run": True})
        )
        return expect(answer, DryRunAnswer)

    async def measurement(self, measurement_id: str) -> MeasurementAnswer:
        """Return a measurement as it is now."""
        return await self.send(read_measurement.call(measurement_id))

    async def cancel(self, measurement_id: str) -> MeasurementAnswer:
        """Cancel a measurement; raises ConflictError where there is a result."""
        return await self.send(cancel_measurement.call(measurement_id))

    async def wait(self, measurement_id: str, timeout_s: float | None = None) -> MeasurementAnswer:
        """Return a measurement once it is over, however it ended.

        Raises NotOverError when that is not in time.
        """
        with anyio.move_on_after(timeout_s):
            while True:
                answer = await self.measurement(measurement_id)
                if answer.status in OVER:
                    return answer
                await anyio.sleep(POLL_S)
        message = f"measurement {measurement_id} is not over in time; it goes on"
        raise NotOverError(message)

    async def workers(self) -> list[WorkerAnswer]:
        """Return the workers that were seen."""
        return list((await self.send(list_workers.call())).items)

    def calibrations(self) -> AsyncIterator[CalibrationAnswer]:
        """Yield what was learnt from measurements."""
        return self._iterate(lambda cursor: list_calibrations.call(limit=PAGE, cursor=cursor))

    async def accuracy(self) -> AccuracyAnswer:
        """Return the error of the estimator on everything that was measured."""
        return await self.send(read_accuracy.call())

    async def version(self) -> VersionAnswer:
        """Return the version of the server."""
        return await self.send(version.call())

    async def send(self, call: Call[T]) -> T:
        """Send a call that may always be repeated, and return its answer.

        Raises ProblemError for a refusal, UnreachableError where no answer came, and ValueError for
        what cannot be sent.
        """
        check_path(call.path)
        attempt = 0
        while True:
            attempt += 1
            wait_s = self._retries.wait_s(attempt)
            try:
                with translate_errors():
                    response = await self._send_once(call)
            except httpx.TransportError as fault:
                if wait_s is None or not Repeat.ALWAYS.after_fault(fault):
                    raise build_unreachable(str(self._client.base_url), fault) from fault
            else:
                if response.is_success:
                    return read_received(call, response).value
                after_s = retry_after_s(response)
                wait_s = self._retries.wait_s(attempt, after_s)
                if wait_s is None or not Repeat.ALWAYS.after_status(response.status_code):
                    raise build_refusal(response, after_s)
            await anyio.sleep(wait_s)

    async def _send_once(self, call: Call[T]) -> httpx.Response:
        return await self._client.request(
            call.method,
            call.path,
            params=dict(call.params),
            headers=dict(call.headers),
            json=call.body,
        )

    async def _iterate(self, page: Callable[[str | Unset], Call[Page[T]]]) -> AsyncIterator[T]:
        """Yield the items of a list as they are needed."""
        cursor: str | Unset = UNSET
        while True:
            answer = await self.send(page(cursor))
            for item in answer.items:
                yield item
            if answer.next_cursor is None:
                return
            cursor = answer.next_cursor
