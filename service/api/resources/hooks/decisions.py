"""/v1/hooks/decisions: what hooks decided; /v1/hooks/questions: what they were asked."""

import re
from typing import Any

from litestar import Request, Router, get, post
from litestar.params import RawBody
from litestar.types import ASGIApp

from service.access.keys import Scope
from service.api.http.decoding import read_body, read_query
from service.api.http.dependencies import get_dependencies
from service.api.http.operation import BODY_PROBLEMS, JSON, STORED_PROBLEMS, Operation, Reply
from service.api.http.pagination import (
    CSV,
    VARY,
    choose_format,
    make_page_request,
    stream_csv,
)
from service.api.http.responses import json_response
from service.api.resources.fit import EXAMPLE
from service.api.resources.hooks.digests import MAX_QUESTION_BYTES, digest_question
from service.api.resources.resolving import resolve_model
from service.base.errors import BodyTooLargeError, NotFoundError
from service.contract.schemas.fields import get_or_default, get_or_none
from service.contract.schemas.fit import FitRequest
from service.contract.schemas.hooks.decisions import (
    DecisionAnswer,
    DecisionPage,
    DecisionQuery,
    HookQuestionAnswer,
    QuestionDigest,
)
from service.contract.to_answer.timestamps import format_timestamp
from service.contract.to_question.fits import read_fit
from service.usecases.hooks import log
from service.usecases.hooks.decision import Action, HookVerdict, Mode
from service.usecases.hooks.log import DecisionFilter, StoredDecision

_PAGE = 50
_DIGEST = re.compile(r"[0-9a-f]{32}")
_COLUMNS = list(DecisionAnswer.__struct_fields__)
AnyRequest = Request[Any, Any, Any]


@get(
    "/decisions",
    sync_to_thread=True,
    operation=Operation(
        id="listHookDecisions",
        tag="hooks",
        summary="List what hooks decided about submitted jobs, newest first.",
        description="A decision is listed about a second after its answer. `format=csv`, or "
        "Accept: text/csv, streams all that the filters let through.",
        query=DecisionQuery,
        scope=Scope.ADMIN,
        replies={
            200: Reply(
                description="One page, or the whole table.",
                bodies=(DecisionPage,),
                media_types=(JSON, CSV),
                headers={"Vary": "Accept"},
            )
        },
        problems=(422, *STORED_PROBLEMS),
    ),
)
def list_all(request: AnyRequest) -> ASGIApp:
    """List decisions."""
    sessions, query = get_dependencies(request).sessions, read_query(request.scope, DecisionQuery)
    filters = _build_filter(query)
    if choose_format(query.format, request.headers.get("accept")) == "csv":
        return stream_csv(
            _COLUMNS,
            lambda page: log.list_decisions(sessions, page, filters),
            _build_decision,
            paging=query,
        )
    wanted_page = make_page_request(get_or_default(query.limit, _PAGE), query.cursor)
    page = log.list_decisions(sessions, wanted_page, filters)
    items = [_build_decision(item) for item in page.items]
    return json_response(DecisionPage(items=items, next_cursor=page.next_cursor), headers=VARY)


@post(
    "/questions",
    sync_to_thread=True,
    status_code=200,
    operation=Operation(
        id="nameHookQuestion",
        scope=Scope.PLAN,
        tag="hooks",
        summary="Store a question, and return the digest by which a job carries it.",
        description=(
            "What `headroom submit` does before it submits: measurements of the job's nodes are "
            "joined to the question by its digest."
        ),
        body=FitRequest,
        example=EXAMPLE,
        replies={200: Reply(description="The question.", bodies=(HookQuestionAnswer,))},
        problems=(*BODY_PROBLEMS, *STORED_PROBLEMS),
    ),
)
def name_question(request: AnyRequest, body: RawBody) -> ASGIApp:
    """Store a question."""
    deps, question = get_dependencies(request), read_body(request.scope, body, FitRequest)
    deps.cluster_names.require(get_or_default(question.cluster, ""))
    # Nobody can be joined to what has no answer.
    read_fit(question, resolve_model(deps, question.model, request.scope))
    named = digest_question(question)
    if named is None:
        message = f"a question that is stored has at most {MAX_QUESTION_BYTES:,} bytes"
        raise BodyTooLargeError(message)
    log.store_question(deps.sessions, named)
    return json_response(HookQuestionAnswer(digest=named.digest, question=dict(named.document)))


@get(
    "/questions/{digest:str}",
    sync_to_thread=True,
    operation=Operation(
        id="getHookQuestion",
        tag="hooks",
        summary="Return a question that a hook answered.",
        path={"digest": QuestionDigest},
        replies={200: Reply(description="The question.", bodies=(HookQuestionAnswer,))},
        problems=(404, 422, *STORED_PROBLEMS),
    ),
)
def get_question(request: AnyRequest) -> ASGIApp:
    """Return a question."""
    digest = str(request.path_params["digest"])
    if not _DIGEST.fullmatch(digest):
        message = f"there is no question {digest[:40]!r}; a digest has 32 digits, 0 to f"
        raise NotFoundError(message)
    question = log.find_question(get_dependencies(request).sessions, digest)
    return json_response(HookQuestionAnswer(digest=digest, question=dict(question)))


def _build_filter(query: DecisionQuery) -> DecisionFilter:
    action = get_or_none(query.action)
    return DecisionFilter(
        door=get_or_none(query.door),
        verdict=get_or_none(query.verdict),
        action=None if action is None else action.value,
        user_name=get_or_none(query.user),
        queue=get_or_none(query.queue),
        digest=get_or_none(query.question),
        created_after=get_or_none(query.created_after),
        created_before=get_or_none(query.created_before),
    )


def _build_decision(stored: StoredDecision) -> DecisionAnswer:
    return DecisionAnswer(
        at=format_timestamp(stored.created_at),
        last_at=format_timestamp(stored.last_at),
        num_times=stored.num_times,
        door=stored.door,
        mode=Mode(stored.mode),
        user=stored.user_name,
        queue=stored.queue,
        job=stored.job_name,
        principal=stored.principal,
        key_id=None if stored.key_id is None else str(stored.key_id),
        request_id=stored.request_id,
        question=stored.digest,
        gpu=stored.gpu,
        verdict=HookVerdict(stored.verdict),
        action=Action(stored.action),
        needed_bytes=stored.needed_bytes,
        usable_bytes=stored.usable_bytes,
        sentence=stored.sentence,
    )


router = Router(path="/v1/hooks", route_handlers=[list_all, name_question, get_question])
