"""Encoded answers, kept for whoever asks again.

A fit is found by the bytes of its question, since resolving it takes as long as answering it. A
search is found by all that it is computed from, once that is resolved.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from litestar import Request
from litestar.types import ASGIApp, HTTPScope, Scope

from service.api.computing.budgets import Budget
from service.api.computing.search_keys import build_search_key
from service.api.computing.searches import SearchAnswer
from service.api.computing.single_flight import Flight
from service.api.http.computing import (
    compute,
    compute_at_turn,
    get_asker,
    respond_to_question,
)
from service.api.http.dependencies import Dependencies, get_dependencies
from service.api.http.etags import build_etag_headers, read_header
from service.api.http.operation import JSON
from service.api.http.responses import (
    bytes_response,
    not_modified,
    tagged_response,
    text_response,
)
from service.contract.to_question.models import ResolvedModel
from service.usecases.preconditions import is_not_modified
from service.usecases.questions.answer_cache import FinishedAnswer, build_etag

Q = TypeVar("Q")
ETAG = "Version of the answer, for `If-None-Match`: equal bytes have the same on every server."
SEEN = "The reader has this very answer: `If-None-Match` names it."
NO_HEADERS: Mapping[str, str] = MappingProxyType({})


def keep_answer(
    deps: Dependencies,
    question: bytes,
    answer: FinishedAnswer,
    model: ResolvedModel,
    *,
    calibrations: int,
    is_costly: bool = False,
) -> None:
    """Keep an answer while what it rests on holds.

    To be called by the thread that has the cache of answers.
    """
    # A name that is read as another's is free: a model may be stored under it at any time.
    if not model.notes:
        deps.answers.store(question, answer, calibrations=calibrations, is_costly=is_costly)
    deps.metrics.set_answer_cache_bytes(deps.answers.num_bytes)


def finish_answer(body: bytes, verdict: str, model: ResolvedModel) -> FinishedAnswer:
    """Return an answer with its tag and the model it rests on."""
    return FinishedAnswer(
        body=body,
        etag=build_etag(body),
        counted_as=verdict,
        model=model.name,
        model_version=model.version,
    )


@dataclass(frozen=True, slots=True)
class Unfinished(Generic[Q]):
    """Question of which a part takes a processor, and so a turn."""

    finish: Callable[[], Q]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Compared(Generic[Q]):
    """Question and the key of its answer."""

    question: Q
    key: str


async def answer_search(
    request: Request[Any, Any, Any],
    name: str,
    read: Callable[[], Q | Unfinished[Q]],
    search: Callable[[Q, Budget], SearchAnswer],
    show: Callable[[Q, FinishedAnswer], ASGIApp],
) -> ASGIApp:
    """Answer a search from the cache of answers, or compute it.

    ``name`` is the question's in metrics. ``read`` returns everything that ``search`` computes from
    but what was learnt; it may wait for the database or for a hub.
    """
    deps = get_dependencies(request)

    def read_to_compare() -> _Compared[Q] | Unfinished[Q]:
        question = read()
        return question if isinstance(question, Unfinished) else _compare(question)

    def finish(unfinished: Unfinished[Q], _budget: Budget) -> _Compared[Q]:
        return _compare(unfinished.finish())

    async def respond(job: _Compared[Q] | Unfinished[Q]) -> ASGIApp:
        if isinstance(job, Unfinished):
            job = await compute(deps, request.scope, deps.cluster_turns, partial(finish, job))
        shared = _Shared(deps=deps, scope=request.scope, name=name, job=job, search=search)
        return show(job.question, await shared.answer())

    return await respond_to_question(request, read_to_compare, respond)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shared(Generic[Q]):
    """Search of one asker, computed once for all who ask the same.

    What it rests on has the version of its beginning, ``calibrations``.
    """

    deps: Dependencies
    scope: HTTPScope
    name: str
    job: _Compared[Q]
    search: Callable[[Q, Budget], SearchAnswer]

    async def answer(self) -> FinishedAnswer:
        """Return the answer that is kept, under way or computed now."""
        deps, calibrations = self.deps, self.deps.corrections.version
        kept = self._find(calibrations)
        if kept is not None:
            deps.metrics.count_cached_search(self.name)
            return kept
        landing = await deps.searches_under_way.join(
            f"{calibrations} {self.job.key}",
            Flight(
                asker=self.scope,
                turn=deps.search_turns.take(get_asker(self.scope)),
                find=partial(self._find, calibrations),
                compute=partial(self._compute, calibrations),
            ),
        )
        if landing.is_shared:
            deps.metrics.count_shared_search(self.name)
        return landing.answer

    def _find(self, calibrations: int) -> FinishedAnswer | None:
        return self.deps.search_answers.find(
            self.job.key,
            calibrations=calibrations,
            get_model_version=self.deps.specs.get_version,
        )

    async def _compute(
        self, calibrations: int, get_payer: Callable[[], HTTPScope]
    ) -> FinishedAnswer:
        deps, name = self.deps, self.name
        computed = await compute_at_turn(
            deps, get_payer, deps.search_turns, partial(self.search, self.job.question)
        )
        deps.metrics.count_search(name, layouts=computed.layouts, estimated=computed.estimated)
        answer = FinishedAnswer(body=computed.body, etag=build_etag(computed.body), counted_as=name)
        deps.search_answers.store(self.job.key, answer, calibrations=calibrations, is_costly=True)
        deps.metrics.set_search_cache_bytes(deps.search_answers.num_bytes)
        return answer


def _compare(question: Q) -> _Compared[Q]:
    return _Compared(question=question, key=build_search_key(question))


def show_search(scope: Scope, _question: object, answer: FinishedAnswer) -> ASGIApp:
    """Return the JSON of a search as a response."""
    return respond_kept(scope, answer)


def respond_kept(
    scope: Scope,
    answer: FinishedAnswer,
    headers: Mapping[str, str] = NO_HEADERS,
    *,
    as_text: bool = False,
) -> ASGIApp:
    """Return an answer with its tag, or 304 to who has it."""
    if_none_match = read_header(scope, b"if-none-match")
    if if_none_match is None and not headers and not as_text:
        return tagged_response(answer.body, answer.etag)
    headers = {**build_etag_headers(answer.etag), **headers}
    if is_not_modified(if_none_match, answer.etag):
        return not_modified(headers)
    if as_text:
        return text_response(answer.body.decode(), headers=headers)
    return bytes_response(answer.body, JSON, headers)
