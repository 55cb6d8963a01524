"""Admission of requests, before their bodies are read."""

from dataclasses import replace

from litestar.types import HTTPScope

from service.api.http.auth import Guard
from service.api.http.decoding import read_query
from service.api.http.middleware import build_audit_event
from service.api.http.operation import Operation, get_success_status
from service.contract.schemas.fields import NoQuery


async def admit_request(guard: Guard, scope: HTTPScope, operation: Operation) -> None:
    """Authorize a request and check its query parameters.

    A change that is let in is written down with what it changes, as if it had been answered.
    """
    state = scope["state"]
    state["operation"] = operation
    await guard.admit(scope, operation)
    if operation.is_change:
        event = build_audit_event(scope, operation, get_success_status(operation))
        state["change"].event = replace(event, id=state["change"].event_id)
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
