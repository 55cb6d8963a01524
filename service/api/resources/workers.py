"""/v1/workers: who measures, on what, and what they do now."""

from typing import Any

from litestar import Request, Router, get
from litestar.types import ASGIApp

from service.api.http.decoding import read_query
from service.api.http.dependencies import parts_of
from service.api.http.operation import STORED_PROBLEMS, Operation, Reply
from service.api.http.pagination import page_request
from service.api.http.responses import json_answer
from service.contract.schemas.fields import PageQuery
from service.contract.schemas.workers import WorkerAnswer, WorkerPage
from service.contract.to_answer.timestamps import timestamp
from service.usecases.jobs import workers
from service.usecases.jobs.workers import SeenWorker
from service.usecases.stored import page_of_named


@get(
    "/",
    sync_to_thread=True,
    operation=Operation(
        id="listWorkers",
        tag="workers",
        summary="List the workers of the last day, the most recently started first.",
        query=PageQuery,
        replies={200: Reply(description="One page.", bodies=(WorkerPage,))},
        problems=(422, *STORED_PROBLEMS),
    ),
)
def list_all(request: Request[Any, Any, Any]) -> ASGIApp:
    """List the workers of the last day."""
    query = read_query(request.scope, PageQuery)
    parts = parts_of(request)
    seen = workers.list_workers(parts.sessions, gone_after_s=parts.settings.lease_s)
    # Heartbeats would shuffle the list between two pages.
    newest = sorted(seen, key=lambda worker: (worker.started_at, worker.name), reverse=True)
    page = page_of_named(newest, page_request(query.limit, query.cursor), list_name="workers", name=lambda worker: worker.name)
    return json_answer(WorkerPage(items=[_shape(worker) for worker in page.items], next_cursor=page.next_cursor))


def _shape(worker: SeenWorker) -> WorkerAnswer:
    return WorkerAnswer(
        name=worker.name,
        host=worker.host,
        pid=worker.pid,
        state=worker.state.value,
        devices=worker.devices,
        versions=worker.versions,
        current_job=None if worker.current_job_id is None else str(worker.current_job_id),
        started_at=timestamp(worker.started_at),
        last_heartbeat=timestamp(worker.last_heartbeat),
    )


router = Router(path="/v1/workers", route_handlers=[list_all])
