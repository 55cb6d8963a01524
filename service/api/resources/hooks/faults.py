"""Faults of the service at a hook, which hold up no job."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from litestar import Request

from service.api.http.problems import get_request_id, report_fault
from service.base.errors import ServiceError
from service.estimator.values.errors import EstimatorError
from service.formats.submissions.submission import SubmissionError


@contextmanager
def contain_faults(request: Request[Any, Any, Any]) -> Iterator[None]:
    """Raise SubmissionError for a fault, which is logged.

    SkyPilot and dstack launch nothing where a hook fails, and a cluster must not stand still for
    one strange job. What is refused in words passes as it is.
    """
    try:
        yield
    except (EstimatorError, ServiceError):
        raise
    except Exception as error:
        request_id = get_request_id(request)
        report_fault(
            error, instance=request.scope["path"], method=request.method, request_id=request_id
        )
        message = f"a fault of Headroom, of which its log says more under request {request_id}"
        raise SubmissionError(message) from error
