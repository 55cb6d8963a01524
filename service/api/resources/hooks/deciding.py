"""Decisions about submitted jobs, within a deadline and a budget."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Any

import anyio
from litestar import Request

from service.api.computing.budgets import Budget
from service.api.http.computing import compute
from service.api.http.dependencies import Dependencies, get_dependencies
from service.api.resources.hooks.computing import Terms, compute_decision
from service.api.resources.hooks.faults import contain_faults
from service.api.resources.hooks.recording import record_decision
from service.base.errors import ServiceError, TooManyRequestsError, UnavailableError
from service.contract.to_question.submissions.questions import (
    OpenSubmissionError,
)
from service.estimator.values.errors import EstimatorError
from service.formats.submissions.submission import Submission
from service.usecases.hooks.decision import (
    SILENT,
    Decision,
    HookVerdict,
    Mode,
    decide_unknown,
)

_HOLDING = frozenset({HookVerdict.FITS, HookVerdict.TIGHT, HookVerdict.NONE})


async def decide_submission(
    request: Request[Any, Any, Any],
    submission: Submission | None,
    mode: Mode,
    *,
    settle: Callable[[Decision], Decision] | None = None,
    is_logged: bool = True,
) -> Decision:
    """Return the decision about a job, and record it.

    Nothing of it is an error: what cannot be read or answered in time passes with its reason, or is
    refused where the operator wants that. ``settle`` returns what a door makes of a decision. The
    line of one that is not ``is_logged`` is read by nobody.
    """
    if submission is None:
        return SILENT
    started, deps = perf_counter(), get_dependencies(request)
    terms = _make_terms(deps, mode)
    if not is_logged:
        terms = replace(terms, search_s=None)
    decision = await _decide(deps, request, submission, terms)
    if settle is not None:
        decision = settle(decision)
    record_decision(
        request,
        submission,
        decision,
        mode=mode,
        seconds=perf_counter() - started,
        is_logged=is_logged,
    )
    return decision


async def decide_alternatives(
    request: Request[Any, Any, Any],
    submissions: Sequence[Submission | None],
    mode: Mode,
    *,
    fails_closed: bool,
    is_last: bool = False,
) -> tuple[int, Decision]:
    """Return the place of the judged alternative, and the decision.

    That is the first that fits; else one about which nothing can be said, since it may fit; else
    the last, whose number of GPUs is looked for. One decision is recorded, and none that another
    try may answer: ``is_last`` says that there will be none.
    """
    started, deps = perf_counter(), get_dependencies(request)
    terms = _make_terms(deps, mode)
    # In each mode: whoever asks again has the number then, and holds up no other door meanwhile.
    # Of a last try half the deadline is left for the verdict.
    search_s, patient_s = deps.settings.hook_search_s, deps.settings.hook_deadline_s / 2
    terms = replace(
        terms,
        fails_closed=fails_closed or terms.fails_closed,
        search_s=max(search_s, patient_s) if is_last else search_s,
    )
    brief = replace(terms, search_s=None)
    decisions: list[Decision] = []
    for index, submission in enumerate(submissions):
        is_searched = index == len(submissions) - 1
        decision = (
            SILENT
            if submission is None
            else await _decide(deps, request, submission, terms if is_searched else brief)
        )
        decisions.append(decision)
        if decision.verdict in _HOLDING or decision.is_transient:
            break
    choice = _choose(decisions)
    chosen = submissions[choice]
    if is_last:
        decisions[choice] = replace(decisions[choice], is_transient=False)
    if chosen is not None:
        record_decision(
            request,
            chosen,
            decisions[choice],
            mode=mode,
            seconds=perf_counter() - started,
            is_logged=not decisions[choice].is_transient,
        )
    return choice, decisions[choice]


def _choose(decisions: Sequence[Decision]) -> int:
    last = len(decisions) - 1
    if decisions[last].verdict in _HOLDING or decisions[last].is_transient:
        return last
    return next(
        (i for i, each in enumerate(decisions) if each.verdict is HookVerdict.UNKNOWN), last
    )


def decide_unreadable(
    request: Request[Any, Any, Any],
    submission: Submission,
    mode: Mode,
    error: EstimatorError,
    *,
    fails_closed: bool = False,
    is_logged: bool = True,
) -> Decision:
    """Return and record the decision about an unreadable job.

    ``submission`` has its names alone.
    """
    closed = fails_closed or _fails_closed(get_dependencies(request))
    decision = decide_unknown(error.message, fails_closed=closed)
    record_decision(request, submission, decision, mode=mode, is_logged=is_logged)
    return decision


def _fails_closed(deps: Dependencies) -> bool:
    return deps.settings.hook_fail == "closed"


def _make_terms(deps: Dependencies, mode: Mode) -> Terms:
    settings = deps.settings
    return Terms(
        mode=mode,
        fails_closed=_fails_closed(deps),
        # A job that would be changed needs the number itself.
        search_s=settings.hook_deadline_s if mode is Mode.CHANGE else settings.hook_search_s,
    )


async def _decide(
    deps: Dependencies, request: Request[Any, Any, Any], submission: Submission, terms: Terms
) -> Decision:
    if _is_silent(submission):
        return SILENT
    terms = replace(terms, asked_at=perf_counter())
    closed = terms.fails_closed
    deadline_s = deps.settings.hook_deadline_s
    try:
        with anyio.fail_after(deadline_s):
            return await compute(
                deps,
                request.scope,
                deps.hook_turns,
                partial(_compute_contained, deps, request, submission, terms),
            )
    except TimeoutError:
        late = f"no answer within {deadline_s:g} s"
        return decide_unknown(late, fails_closed=closed, is_transient=True)
    except OpenSubmissionError as error:
        quiet = submission.note is None
        return decide_unknown(error.message, fails_closed=closed, quiet=quiet)
    except (ServiceError, EstimatorError) as error:
        why = error.detail if isinstance(error, ServiceError) else error.message
        is_transient = isinstance(error, TooManyRequestsError | UnavailableError)
        return decide_unknown(why, fails_closed=closed, is_transient=is_transient)


def _is_silent(submission: Submission) -> bool:
    """Return whether a job asks for no GPU and says no question."""
    asks = submission.gpus is not None and submission.gpus.total > 0
    return not asks and submission.note is None


def _compute_contained(
    deps: Dependencies,
    request: Request[Any, Any, Any],
    submission: Submission,
    terms: Terms,
    budget: Budget,
) -> Decision:
    with contain_faults(request):
        return compute_decision(deps, request, submission, terms, budget)
