"""Encoded answers, kept for whoever asks again.

A fit is found by the bytes of its question, since resolving it takes as long as answering it. A
search is found by all that it is computed from, once that is resolved.
"""

from collections.abc import Callable, Mapping
from hashlib import sha256
from types import MappingProxyType
from typing import Any, TypeVar

import anyio.to_thread
from litestar import Request
from litestar.types import ASGIApp, Scope

from service.api.computing.budgets import Budget
from service.api.computing.searches import SearchAnswer
from service.api.http.computing import choose_reading_limiter, compute
from service.api.http.dependencies import Dependencies, get_dependencies
from service.api.http.disconnect import run_until_disconnect
from service.api.http.etags import build_etag_headers, read_header
from service.api.http.operation import JSON
from service.api.http.responses import bytes_response, not_modified, text_response
from service.contract.to_question.models import ResolvedModel
from service.runtime.children.messages import encode_message
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


async def answer_search(
    request: Request[Any, Any, Any],
    name: str,
    read: Callable[[], Q],
    search: Callable[[Q, Budget], SearchAnswer],
    show: Callable[[Q, FinishedAnswer], ASGIApp],
) -> ASGIApp:
    """Answer a search from the cache of answers, or compute it.

    ``name`` is the question's in metrics. ``read`` returns everything that ``search`` computes from
    but what was learnt; it may wait for the database or for a hub.
    """
    deps = get_dependencies(request)
    limiter = await choose_reading_limiter(request)

    def read_with_key() -> tuple[Q, str]:
        question = read()
        return question, build_search_key(question)

    async def respond() -> ASGIApp:
        question, key = await anyio.to_thread.run_sync(read_with_key, limiter=limiter)
        calibrations = deps.corrections.version
        answer = deps.answers.find(
            key, calibrations=calibrations, get_model_version=deps.specs.get_version
        )
        if answer is not None:
            deps.metrics.count_cached_search(name)
            return show(question, answer)
        computed = await compute(
            deps, request.scope, deps.search_turns, lambda budget: search(question, budget)
        )
        deps.metrics.count_search(name, layouts=computed.layouts, estimated=computed.estimated)
        answer = FinishedAnswer(body=computed.body, etag=build_etag(computed.body), counted_as=name)
        deps.answers.store(key, answer, calibrations=calibrations, is_costly=True)
        deps.metrics.set_answer_cache_bytes(deps.answers.num_bytes)
        return show(question, answer)

    return await run_until_disconnect(request.receive, respond)


def build_search_key(question: object) -> str:
    """Return a digest of all that an answer is computed from.

    It is of what travels to a process that computes, so that nothing which changes an answer is
    left out: the model's modules and not its name, GPUs and prices, nodes and reservations.
    """
    return sha256(encode_message(question)).hexdigest()


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
    headers = {**build_etag_headers(answer.etag), **headers}
    if is_not_modified(read_header(scope, b"if-none-match"), answer.etag):
        return not_modified(headers)
    if as_text:
        return text_response(answer.body.decode(), headers=headers)
    return bytes_response(answer.body, JSON, headers)
