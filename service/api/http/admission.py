"""Admission of requests, before their bodies are read."""

from litestar.types import HTTPScope

from service.api.http.auth import Guard
from service.api.http.decoding import read_query
from service.api.http.operation import Operation
from service.contract.schemas.fields import NoQuery


async def admit_request(guard: Guard, scope: HTTPScope, operation: Operation) -> None:
    """Authorize a request and check its query parameters."""
    scope["state"]["operation"] = operation
    await guard.admit(scope, operation)
    refuse_parameters(scope, operation)


def refuse_parameters(scope: HTTPScope, operation: Operation) -> None:
    """Refuse query parameters of an operation that documents none.

    An operation that documents some reads them itself. Probes and scrapers add parameters of their
    own to the operational endpoints, which ignore them.
    """
    if not scope["query_string"] or not scope["path"].startswith("/v1/"):
        return
    if operation.query is None:
        read_query(scope, NoQuery)
