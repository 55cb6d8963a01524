"""Every refusal as a problem document (RFC 9457): ours, the estimator's, the framework's, and the unexpected."""

from collections.abc import Mapping
from typing import Any

import msgspec
from litestar import Request, Response
from litestar.exceptions import HTTPException, MethodNotAllowedException, NotFoundException
from litestar.types import ExceptionHandlersMap

from service.api.routing import allowed_methods
from service.api.schemas.problem import FieldError, Problem
from service.errors import BodyTooLargeError, ServiceError
from service.estimator.errors import EstimatorError, InvalidConfigError, NotModelledError, UnknownModelTypeError
from service.logs import logger

MEDIA_TYPE = "application/problem+json"
ESTIMATOR_TYPES: Mapping[type[EstimatorError], tuple[str, str]] = {
    EstimatorError: ("invalid-request", "The request breaks a rule"),
    InvalidConfigError: ("invalid-model-config", "The model's configuration is incomplete or contradicts itself"),
    UnknownModelTypeError: ("unknown-model-type", "Unknown model_type"),
    NotModelledError: ("not-modelled", "Legal, but not modelled yet"),
}
UNPROCESSABLE = 422
TOO_LARGE = 413

AnyRequest = Request[Any, Any, Any]

log = logger(__name__)


def on_service_error(request: AnyRequest, error: ServiceError) -> Response[bytes]:
    """Answer an expected refusal of ours."""
    extra = dict(error.extra)
    errors = tuple(msgspec.convert(extra.pop("errors", ()), tuple[FieldError, ...]))
    problem = _problem(request, (error.type, error.title), status=error.status, detail=error.detail, errors=errors)
    headers = {"retry-after": "1"} if error.status == 503 else {}  # noqa: PLR2004  # Service Unavailable
    return _answer(problem, extra=extra, headers=headers)


def on_estimator_error(request: AnyRequest, error: EstimatorError) -> Response[bytes]:
    """Answer a refusal of the estimator: always about what the body says."""
    kind = next(ESTIMATOR_TYPES[base] for base in type(error).__mro__ if base in ESTIMATOR_TYPES)
    errors = (FieldError(field=error.field, message=error.message),) if error.field else ()
    problem = _problem(request, kind, status=UNPROCESSABLE, detail=error.message, errors=errors)
    return _answer(problem, extra=_facts(error))


def on_not_found(request: AnyRequest, _error: NotFoundException) -> Response[bytes]:
    """Answer for a path that no resource has."""
    detail = f"nothing lives at {request.url.path}; /docs lists every path"
    return _answer(_problem(request, ("not-found", "Not found"), status=404, detail=detail))


def on_method_not_allowed(request: AnyRequest, _error: MethodNotAllowedException) -> Response[bytes]:
    """Answer for a method that this path does not have, and name those that it has."""
    allowed = ", ".join(allowed_methods(request.app, request.scope["path"]))
    detail = f"{request.method} is not allowed here; allowed: {allowed}"
    problem = _problem(request, ("method-not-allowed", "Method not allowed"), status=405, detail=detail)
    return _answer(problem, headers={"allow": allowed})


def on_http_error(request: AnyRequest, error: HTTPException) -> Response[bytes]:
    """Answer what the framework refused before we saw it."""
    if error.status_code == TOO_LARGE:
        return on_service_error(request, BodyTooLargeError("the body is larger than 1,000,000 bytes"))
    kind = (f"http-{error.status_code}", "The request could not be served")
    return _answer(_problem(request, kind, status=error.status_code, detail=error.detail), headers=error.headers or {})


def on_unexpected(request: AnyRequest, error: Exception) -> Response[bytes]:
    """Answer a fault of ours: the log has the reason, the client has the request's id."""
    request_id = request.scope.get("state", {}).get("request_id", "unknown")
    log.error("request.failed", method=request.method, path=request.url.path, request_id=request_id, exc_info=error)
    detail = f"this is a fault of the service, not of the request; its log says more under request {request_id}"
    return _answer(_problem(request, ("internal-error", "Internal error"), status=500, detail=detail))


def _problem(
    request: AnyRequest, kind: tuple[str, str], *, status: int, detail: str, errors: tuple[FieldError, ...] = ()
) -> Problem:
    slug, title = kind
    return Problem(type=slug, title=title, status=status, detail=detail, instance=request.scope["path"], errors=errors)


def _facts(error: EstimatorError) -> dict[str, object]:
    match error:
        case UnknownModelTypeError():
            return {"model_type": error.model_type, "known": error.known}
        case NotModelledError():
            return {"modelled": error.modelled}
        case _:
            return {}


def _answer(
    problem: Problem, *, extra: Mapping[str, object] | None = None, headers: Mapping[str, str] | None = None
) -> Response[bytes]:
    document = {**msgspec.to_builtins(problem), **(extra or {})}
    return Response(
        msgspec.json.encode(document), status_code=problem.status, media_type=MEDIA_TYPE, headers=dict(headers or {})
    )


HANDLERS: ExceptionHandlersMap = {
    ServiceError: on_service_error,
    EstimatorError: on_estimator_error,
    NotFoundException: on_not_found,
    MethodNotAllowedException: on_method_not_allowed,
    HTTPException: on_http_error,
    Exception: on_unexpected,
}
