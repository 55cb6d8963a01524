"""Decisions about submitted jobs, within a deadline and a budget."""

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from functools import partial
from time import perf_counter
from typing import Any

import anyio
from litestar import Request

from service.api.computing.budgets import Budget
from service.api.http.computing import compute
from service.api.http.dependencies import Dependencies, get_dependencies
from service.api.resources.hooks.digests import digest_question
from service.api.resources.hooks.recording import record_decision
from service.api.resources.resolving import resolve_model
from service.base.errors import ServiceError
from service.contract.schemas.how_many import HowManyRequest
from service.contract.to_question.fits import read_fit
from service.contract.to_question.searches import read_how_many
from service.contract.to_question.submissions.questions import (
    MAX_GPUS,
    OpenSubmissionError,
    SubmissionQuestion,
    drop_replicas,
    read_submission,
)
from service.contract.to_question.validation_errors import decode
from service.estimator.values.errors import EstimatorError
from service.estimator.values.units import ceil_div, format_bytes
from service.formats.submissions.submission import Submission
from service.planner.fit.candidates import Candidate
from service.planner.fit.fit import FitReport
from service.planner.fit.verdict import Verdict
from service.usecases.hooks.decision import (
    SILENT,
    Action,
    Decision,
    HookQuestion,
    HookVerdict,
    Mode,
    Shortage,
    decide_shortage,
    decide_unknown,
    make_line,
)
from service.usecases.questions.fit import FitQuestion, judge_fit
from service.usecases.questions.how_many import answer_how_many

_REPLICAS = frozenset({"data_parallel"})
"""Words that another number of GPUs changes by itself."""


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
    refused where the operator wants that. ``settle`` returns what a door makes of a decision.
    """
    if submission is None:
        return SILENT
    started = perf_counter()
    decision = await _decide(get_dependencies(request), request, submission, mode)
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


def decide_unreadable(
    request: Request[Any, Any, Any], scheduler: str, mode: Mode, error: EstimatorError
) -> Decision:
    """Return and record the decision about an unreadable job."""
    closed = _fails_closed(get_dependencies(request))
    decision = decide_unknown(error.message, fails_closed=closed)
    record_decision(request, Submission(scheduler=scheduler), decision, mode=mode)
    return decision


def _fails_closed(deps: Dependencies) -> bool:
    return deps.settings.hook_fail == "closed"


async def _decide(
    deps: Dependencies, request: Request[Any, Any, Any], submission: Submission, mode: Mode
) -> Decision:
    if _is_silent(submission):
        return SILENT
    closed = _fails_closed(deps)
    deadline_s = deps.settings.hook_deadline_s
    try:
        with anyio.fail_after(deadline_s):
            return await compute(
                deps,
                request.scope,
                deps.hook_turns,
                partial(_compute, deps, request, submission, mode),
            )
    except TimeoutError:
        return decide_unknown(f"no answer within {deadline_s:g} s", fails_closed=closed)
    except OpenSubmissionError as error:
        quiet = submission.note is None
        return decide_unknown(error.message, fails_closed=closed, quiet=quiet)
    except (ServiceError, EstimatorError) as error:
        why = error.detail if isinstance(error, ServiceError) else error.message
        return decide_unknown(why, fails_closed=closed)


def _is_silent(submission: Submission) -> bool:
    """Return whether a job asks for no GPU and says no question."""
    asks = submission.gpus is not None and submission.gpus.total > 0
    return not asks and submission.note is None


def _compute(
    deps: Dependencies,
    request: Request[Any, Any, Any],
    submission: Submission,
    mode: Mode,
    budget: Budget,
) -> Decision:
    resolve = partial(resolve_model, deps, scope=request.scope)
    question = read_submission(submission, resolve, default_gpu=deps.settings.hook_gpu)
    fit_question = read_fit(question.request, resolve(question.request.model))
    plans = deps.plans.with_cancellation(budget.check)
    report = judge_fit(fit_question, plans=plans, find_corrections=budget.limit(deps.corrections))
    shortage = _find_shortage(deps, request, question, fit_question, report, budget)
    decision = (
        _allow(question, report)
        if shortage is None
        else _settle(submission, question, shortage, mode)
    )
    asked_question = digest_question(question.request)
    return replace(
        decision,
        sentence=make_line(decision.sentence, _link(deps, asked_question)),
        question=asked_question,
        needed_bytes=_count_needed_bytes(report),
        usable_bytes=report.device.usable_bytes,
    )


def _link(deps: Dependencies, question: HookQuestion | None) -> str | None:
    """Return the address of the page that answers a question."""
    if deps.settings.public_url is None or question is None:
        return None
    return f"{deps.settings.public_url}/questions/{question.digest}"


def _settle(
    submission: Submission, question: SubmissionQuestion, shortage: Shortage, mode: Mode
) -> Decision:
    gpus = question.gpus
    return decide_shortage(
        shortage,
        mode,
        gpu=question.gpu,
        requested=None if gpus is None else gpus.per_node,
        # The processes of a launch that was read are what its command says, on any number of GPUs.
        can_change=submission.can_change
        and gpus is not None
        and (question.is_stated or not shortage.lacks_memory),
    )


def _allow(question: SubmissionQuestion, report: FitReport) -> Decision:
    is_tight = report.verdict is not Verdict.FITS
    word = "is tight" if is_tight else "fits"
    assumed = f" {', '.join(question.assumed)}" if question.assumed else ""
    return Decision(
        verdict=HookVerdict.TIGHT if is_tight else HookVerdict.FITS,
        action=Action.WARN if is_tight else Action.ALLOW,
        sentence=make_line(f"headroom: {word}{assumed}: {_describe(question, report)}"),
        gpu=question.gpu,
    )


def _describe(question: SubmissionQuestion, report: FitReport) -> str:
    needed = format_bytes(_count_needed_bytes(report))
    at_most = "at most " if report.verdict is Verdict.FITS else ""
    usable = format_bytes(report.device.usable_bytes)
    return f"{at_most}{needed} of {usable} on each {question.gpu}"


def _count_needed_bytes(report: FitReport) -> int:
    """Return the bytes that a line names.

    Where it fits, they are the most.
    """
    estimate = report.estimate
    return (
        estimate.device_interval.high if report.verdict is Verdict.FITS else estimate.device_bytes
    )


def _find_shortage(
    deps: Dependencies,
    request: Request[Any, Any, Any],
    question: SubmissionQuestion,
    fit_question: FitQuestion,
    report: FitReport,
    budget: Budget,
) -> Shortage | None:
    """Return the shortage of a job, ``None`` where it can run."""
    gpus, needed = question.gpus, fit_question.layout.num_gpus
    if report.verdict is Verdict.DOES_NOT_FIT:
        return _look_for_more(deps, request, question, fit_question, report, budget)
    if gpus is None or not gpus.total or gpus.total >= needed:
        return None
    return Shortage(
        reason=f"headroom: the launch runs on {needed} GPUs, and the job asks for {gpus.total}",
        per_node=ceil_div(needed, gpus.num_nodes),
    )


def _look_for_more(
    deps: Dependencies,
    request: Request[Any, Any, Any],
    question: SubmissionQuestion,
    fit_question: FitQuestion,
    report: FitReport,
    budget: Budget,
) -> Shortage:
    """Return the fewest GPUs that hold what these do not."""
    reason = f"headroom: does not fit: {_describe(question, report)}"
    try:
        search = decode(drop_replicas(question.request, fit_question.workload), HowManyRequest)
        model = resolve_model(deps, search.model, request.scope)
        [(_, plan), *_] = answer_how_many(
            read_how_many(search, model),
            # A scheduler shows a job again and again: 12 ms from here, 55 from an empty cache.
            plans=deps.plans.with_cancellation(budget.check),
            find_corrections=budget.limit(deps.corrections),
        )
    except (ServiceError, EstimatorError):
        return Shortage(reason=reason, lacks_memory=True)
    if plan.num_gpus is None:
        return Shortage(
            reason=reason,
            nothing_fits=f"up to {MAX_GPUS} of them do not hold it as it is",
            lacks_memory=True,
        )
    nodes = 1 if question.gpus is None else question.gpus.num_nodes
    return Shortage(
        reason=reason,
        per_node=ceil_div(plan.num_gpus, nodes),
        settings=tuple(_iter_settings(fit_question, plan.candidates[0])),
        lacks_memory=True,
    )


def _iter_settings(question: FitQuestion, candidate: Candidate) -> Iterator[str]:
    """Yield a candidate's settings that differ, but for its replicas."""
    pairs = (question.layout, candidate.layout), (question.workload, candidate.workload)
    for ours, theirs in pairs:
        for field in fields(theirs):
            value = getattr(theirs, field.name)
            if field.name not in _REPLICAS and value != getattr(ours, field.name, None):
                yield f"{field.name} {value}"
