"""Every refusal as a problem document (RFC 9457).

Those of the service, of the estimator, of the framework, and the unexpected.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from litestar import Request, Response
from litestar.exceptions import HTTPException, MethodNotAllowedException, NotFoundException
from litestar.types import ASGIApp, ExceptionHandlersMap

from service.api.http.disconnect import CLIENT_CLOSED_REQUEST
from service.api.http.routing import list_allowed_methods
from service.base.errors import BodyTooLargeError, ServiceError, UnavailableError
from service.contract.to_answer.problems import build_problem, build_refusal, to_document
from service.estimator.values.errors import EstimatorError
from service.runtime.logs import get_logger

MEDIA_TYPE = "application/problem+json"
TOO_LARGE = 413
CLIENT_LEFT = "client disconnected prematurely"
"""What the framework says of a body whose client left, which is no fault of the service."""

_OUT_OF_MEMORY = (
    "the server's process got no memory for this answer, and forgets what it kept for others; ask "
    "again, or for less at once (fewer items of a batch), or give it more memory"
)

AnyRequest = Request[Any, Any, Any]

log = get_logger(__name__)


class OutOfMemoryError(UnavailableError):
    """A process of the server that got no memory for an answer."""

    type = "out-of-memory"
    title = "The server has no memory left"


def report_fault(
    error: Exception, *, instance: str, method: str, request_id: str
) -> dict[str, object]:
    """Log a service fault and return its problem document.

    The log has the reason, the client has the request's id. A process without memory says that.
    """
    if isinstance(error, MemoryError):
        log.error("request.out_of_memory", method=method, path=instance, request_id=request_id)
        return build_refusal(OutOfMemoryError(_OUT_OF_MEMORY), instance=instance)
    log.error("request.failed", method=method, path=instance, request_id=request_id, exc_info=error)
    detail = (
        "this is a fault of the service, not of the request; its log says more under request "
        f"{request_id}"
    )
    return to_document(
        build_problem(instance, ("internal-error", "Internal error"), status=500, detail=detail)
    )


def get_request_id(request: AnyRequest) -> str:
    """Return the id under which the log has a request."""
    return str(request.scope.get("state", {}).get("request_id", "unknown"))


def on_refusal(request: AnyRequest, error: ServiceError | EstimatorError) -> Response[bytes]:
    """Answer an expected refusal.

    It is one of the service, or of the estimator, which is always about what the body says.
    """
    document = build_refusal(error, instance=request.scope["path"])
    return _build_response(document, headers=_build_headers(document))


def _build_headers(document: Mapping[str, Any]) -> dict[str, str]:
    """Return the headers that clients expect with some statuses.

    See RFC 9110, sec. 10.2.3 and 11.6.1.
    """
    match document["status"]:
        case 401:
            return {"www-authenticate": 'Bearer realm="headroom"'}
        case 409 | 429 if "retry_after_s" in document:
            return {"retry-after": str(document["retry_after_s"])}
        case 503:
            return {"retry-after": "1"}
        case _:
            return {}


def on_not_found(request: AnyRequest, _error: NotFoundException) -> Response[bytes]:
    """Answer for a path that no resource has."""
    detail = f"nothing lives at {request.url.path}; /docs lists every path"
    return _build_response(
        to_document(
            build_problem(
                request.scope["path"], ("not-found", "Not found"), status=404, detail=detail
            ),
        ),
    )


def on_method_not_allowed(
    request: AnyRequest, _error: MethodNotAllowedException
) -> Response[bytes]:
    """Answer 405 with the methods of the path."""
    allowed = ", ".join(list_allowed_methods(request.app, request.scope["path"]))
    detail = f"{request.method} is not allowed here; allowed: {allowed}"
    problem = build_problem(
        request.scope["path"],
        ("method-not-allowed", "Method not allowed"),
        status=405,
        detail=detail,
    )
    return _build_response(to_document(problem), headers={"allow": allowed})


def on_http_error(request: AnyRequest, error: HTTPException) -> Response[bytes]:
    """Answer what the framework refused by itself."""
    if error.status_code == TOO_LARGE:
        max_bytes = request.route_handler.resolve_request_max_body_size()
        return on_refusal(
            request, BodyTooLargeError(f"the body is larger than {max_bytes:,} bytes")
        )
    if error.detail == CLIENT_LEFT:
        return Response(b"", status_code=CLIENT_CLOSED_REQUEST)
    kind = (f"http-{error.status_code}", "The request could not be served")
    problem = build_problem(
        request.scope["path"], kind, status=error.status_code, detail=error.detail
    )
    return _build_response(to_document(problem), headers=error.headers or {})


def on_unexpected(request: AnyRequest, error: Exception) -> Response[bytes]:
    """Answer a fault of the service."""
    if isinstance(error, MemoryError) and (parts := request.app.state.get("parts")) is not None:
        parts.forget()
    path = request.scope["path"]
    document = report_fault(
        error, instance=path, method=request.method, request_id=get_request_id(request)
    )
    return _build_response(document, headers=_build_headers(document))


def build_error_response(request: AnyRequest, error: Exception) -> ASGIApp:
    """Answer an error as the framework would."""
    handler = next(HANDLERS[kind] for kind in type(error).__mro__ if kind in HANDLERS)
    return handler(request, error).to_asgi_response(app=None, request=request)


def _build_response(
    document: Mapping[str, Any], *, headers: Mapping[str, str] | None = None
) -> Response[bytes]:
    return Response(
        msgspec.json.encode(document),
        status_code=document["status"],
        media_type=MEDIA_TYPE,
        headers=dict(headers or {}),
    )


HANDLERS: ExceptionHandlersMap = {
    ServiceError: on_refusal,
    EstimatorError: on_refusal,
    NotFoundException: on_not_found,
    MethodNotAllowedException: on_method_not_allowed,
    HTTPException: on_http_error,
    Exception: on_unexpected,
}
