"""/v1/field-data: who handed in measurements, and which of them teach."""

from typing import Any
from uuid import UUID

from litestar import Request, Router, get, post
from litestar.params import RawBody
from litestar.types import ASGIApp

from service.access.keys import NOBODY, Scope
from service.api.http.auth import get_principal
from service.api.http.decoding import read_body
from service.api.http.dependencies import get_dependencies
from service.api.http.operation import BODY_PROBLEMS, STORED_PROBLEMS, Operation, Reply
from service.api.http.responses import json_response
from service.contract.schemas.fields import get_or_none
from service.contract.schemas.imports.field_data import (
    FieldDataAnswer,
    FieldDataDecision,
    SourceAnswer,
    SourceList,
    SourceWithdrawal,
)
from service.contract.to_answer.timestamps import format_timestamp
from service.usecases.imports import claims
from service.usecases.imports.claims import Claimant, Decision

TAG = "measurements"
AnyRequest = Request[Any, Any, Any]


def get_claimant(request: AnyRequest) -> Claimant:
    """Return whoever hands something in; an operator is trusted."""
    principal = get_principal(request.scope)
    if principal is None:
        return Claimant(name=NOBODY)
    return Claimant(
        name=principal.name,
        key=principal.usage_key,
        trusted=principal.has_scope(Scope.ADMIN),
    )


@get(
    "/",
    sync_to_thread=True,
    operation=Operation(
        id="listFieldData",
        scope=Scope.ADMIN,
        tag=TAG,
        summary="List who handed in measurements, and how many of them teach.",
        replies={200: Reply(description="Everybody who did.", bodies=(SourceList,))},
        problems=(422, *STORED_PROBLEMS),
    ),
)
def list_sources(request: AnyRequest) -> ASGIApp:
    """List who handed in measurements."""
    counts = claims.list_sources(get_dependencies(request).sessions)
    return json_response(
        SourceList(
            items=[
                SourceAnswer(
                    source=count.source,
                    source_key=count.source_key,
                    cluster=count.cluster,
                    num_pending=count.num_pending,
                    num_held=count.num_held,
                    num_approved=count.num_approved,
                    num_withdrawn=count.num_withdrawn,
                    newest_at=format_timestamp(count.newest_at),
                )
                for count in counts
            ]
        )
    )


@post(
    "/approve",
    sync_to_thread=True,
    status_code=200,
    operation=Operation(
        id="approveFieldData",
        scope=Scope.ADMIN,
        is_change=True,
        tag=TAG,
        summary="Let measurements that were handed in teach.",
        description=(
            "All that wait of a `source`, or those named by `ids`. What is held apart, since it is "
            "far from the answer, is approved by its id alone."
        ),
        body=FieldDataDecision,
        example={"source": "nodes"},
        replies={200: Reply(description="Approved.", bodies=(FieldDataAnswer,))},
        problems=(404, *BODY_PROBLEMS, *STORED_PROBLEMS),
    ),
)
def approve(request: AnyRequest, body: RawBody) -> ASGIApp:
    """Let measurements that were handed in teach."""
    deps = get_dependencies(request)
    payload = read_body(request.scope, body, FieldDataDecision)
    decision = claims.approve(
        deps.sessions,
        source=get_or_none(payload.source),
        job_ids=[UUID(text) for text in get_or_none(payload.ids) or ()],
        by=get_claimant(request).name,
        cluster=get_or_none(payload.cluster),
    )
    deps.corrections.refresh()
    return json_response(_build_answer(decision))


@post(
    "/withdraw",
    sync_to_thread=True,
    status_code=200,
    operation=Operation(
        id="withdrawFieldData",
        scope=Scope.ADMIN,
        is_change=True,
        tag=TAG,
        summary="Withdraw everything that a source handed in.",
        description=(
            "Nothing of it teaches any more at once; what it taught is learnt anew. The key stays: "
            "revoke it too."
        ),
        body=SourceWithdrawal,
        example={"source": "nodes"},
        replies={200: Reply(description="Withdrawn.", bodies=(FieldDataAnswer,))},
        problems=(*BODY_PROBLEMS, *STORED_PROBLEMS),
    ),
)
def withdraw(request: AnyRequest, body: RawBody) -> ASGIApp:
    """Withdraw everything that a source handed in."""
    deps = get_dependencies(request)
    payload = read_body(request.scope, body, SourceWithdrawal)
    decision = claims.withdraw_source(
        deps.sessions,
        payload.source,
        by=get_claimant(request).name,
        cluster=get_or_none(payload.cluster),
    )
    deps.corrections.refresh()
    return json_response(_build_answer(decision))


def _build_answer(decision: Decision) -> FieldDataAnswer:
    return FieldDataAnswer(
        ids=[str(job_id) for job_id in decision.ids],
        num_changed=len(decision.ids),
        has_more=decision.has_more,
    )


router = Router(path="/v1/field-data", route_handlers=[list_sources, approve, withdraw])
