"""The operational endpoints: alive, ready, metrics, version."""

import platform
from typing import Any

from litestar import Request, get
from litestar.types import ASGIApp
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from service.api.http.dependencies import get_dependencies
from service.api.http.operation import Operation, Reply
from service.api.http.responses import bytes_response, json_response
from service.contract.schemas.operations import HealthAnswer, ReadyAnswer, VersionAnswer

TAG = "operations"
_HEALTHY = HealthAnswer()


@get(
    "/healthz",
    sync_to_thread=False,
    operation=Operation(
        id="health",
        scope=None,
        tag=TAG,
        summary="Say that the process answers.",
        replies={200: Reply(description="It does.", bodies=(HealthAnswer,))},
    ),
)
def health() -> ASGIApp:
    """Say that the process answers."""
    return json_response(_HEALTHY)


@get(
    "/readyz",
    sync_to_thread=True,
    operation=Operation(
        id="ready",
        scope=None,
        tag=TAG,
        summary="Say whether everything that this process needs is there.",
        replies={
            200: Reply(
                description="Ready, or degraded because Redis is away.", bodies=(ReadyAnswer,)
            ),
            503: Reply(
                description="The database is unreachable or not at this version's schema.",
                bodies=(ReadyAnswer,),
            ),
        },
    ),
)
def ready(request: Request[Any, Any, Any]) -> ASGIApp:
    """Say whether everything that this process needs is there."""
    readiness = get_dependencies(request).readiness()
    answer = ReadyAnswer(
        status=readiness.status, database=readiness.database, redis=readiness.redis
    )
    return json_response(answer, status=200 if readiness.is_ready else 503)


@get(
    "/metrics",
    sync_to_thread=True,
    operation=Operation(
        id="metrics",
        tag=TAG,
        summary="Show counters and gauges for Prometheus.",
        replies={
            200: Reply(
                description="Prometheus' text format.", bodies=(str,), media_types=("text/plain",)
            ),
        },
    ),
)
def metrics(request: Request[Any, Any, Any]) -> ASGIApp:
    """Show counters and gauges for Prometheus."""
    deps = get_dependencies(request)
    return bytes_response(deps.metrics.render(deps.read_snapshot()), CONTENT_TYPE_LATEST)


@get(
    "/version",
    sync_to_thread=False,
    operation=Operation(
        id="version",
        scope=None,
        tag=TAG,
        summary="Say what runs here.",
        replies={200: Reply(description="Name and versions.", bodies=(VersionAnswer,))},
    ),
)
def version(request: Request[Any, Any, Any]) -> ASGIApp:
    """Say what runs here."""
    return json_response(
        VersionAnswer(
            name="gpu-headroom",
            version=get_dependencies(request).version,
            python=platform.python_version(),
        ),
    )


handlers = [health, ready, metrics, version]
