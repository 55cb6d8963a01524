"""/v1/workers: workers, their devices and what they do now."""

from typing import Any

from litestar import Request, Router, get
from litestar.types import ASGIApp

from service.api.http.decoding import read_query
from service.api.http.dependencies import get_dependencies
from service.api.http.operation import STORED_PROBLEMS, Operation, Reply
from service.api.http.pagination import make_page_request
from service.api.http.responses import json_response
from service.contract.schemas.fields import PageQuery
from service.contract.schemas.operations import WorkerAnswer, WorkerPage
from service.contract.to_answer.timestamps import format_timestamp
from service.usecases.jobs import workers
from service.usecases.jobs.workers import WorkerSummary
from service.usecases.stored import make_page_by_name


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
    deps = get_dependencies(request)
    seen = workers.list_workers(deps.sessions, gone_after_s=deps.settings.lease_s)
    # Heartbeats would shuffle the list between two pages.
    newest = sorted(seen, key=lambda worker: (worker.started_at, worker.name), reverse=True)
    page = make_page_by_name(
        newest,
        make_page_request(query.limit, query.cursor),
        list_name="workers",
        name=lambda worker: worker.name,
    )
    return json_response(
        WorkerPage(
            items=[_build_answer(worker) for worker in page.items], next_cursor=page.next_cursor
        ),
    )


def _build_answer(worker: WorkerSummary) -> WorkerAnswer:
    return WorkerAnswer(
        name=worker.name,
        host=worker.host,
        pid=worker.pid,
        state=worker.state.value,
        devices=worker.devices,
        observed=None if worker.observed is None else dict(worker.observed),
        versions=worker.versions,
        current_job=None if worker.current_job_id is None else str(worker.current_job_id),
        started_at=format_timestamp(worker.started_at),
        last_heartbeat=format_timestamp(worker.last_heartbeat),
    )


router = Router(path="/v1/workers", route_handlers=[list_all])
