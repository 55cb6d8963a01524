"""Decision about one submitted job, computed."""

from dataclasses import dataclass, field, replace
from functools import partial
from time import perf_counter
from typing import Any

from litestar import Request

from service.api.computing.budgets import Budget
from service.api.computing.reading import SMALL_BYTES
from service.api.http.dependencies import Dependencies
from service.api.resources.handed_in.checkpoints import Checkpoints, read_with_models
from service.api.resources.handed_in.jobs import read_job
from service.api.resources.hooks.digests import digest_question
from service.api.resources.hooks.shortages import (
    JudgedJob,
    count_needed_bytes,
    describe_need,
    explain_unfound,
    find_shortage,
)
from service.api.resources.resolving import resolve_model
from service.contract.schemas.fields import get_or_default
from service.contract.to_question.fits import read_fit
from service.contract.to_question.launches import find_by
from service.contract.to_question.submissions.questions import (
    SubmissionQuestion,
    read_submission,
    refuse_open,
)
from service.formats.submissions.submission import Submission
from service.planner.fit.parts import NO_PARTS, FitPart
from service.planner.fit.verdict import Verdict
from service.usecases.hooks.decision import (
    Action,
    Decision,
    HookQuestion,
    HookVerdict,
    Mode,
    Shortage,
    decide_shortage,
    make_line,
)
from service.usecases.questions.fit import judge_fit


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """Permission of a hook, and its patience for a number of GPUs.

    It is patient for ``search_s`` in all, and other jobs are judged meanwhile; None where nobody
    reads the number.
    """

    mode: Mode
    fails_closed: bool
    search_s: float | None
    asked_at: float = field(default_factory=perf_counter)

    def count_remaining_s(self) -> float | None:
        """Return how long a number of GPUs may yet take.

        None where nobody reads it.
        """
        if self.search_s is None:
            return None
        return max(0.0, self.search_s - (perf_counter() - self.asked_at))


def compute_decision(
    deps: Dependencies,
    request: Request[Any, Any, Any],
    submission: Submission,
    terms: Terms,
    budget: Budget,
) -> Decision:
    """Return the decision about a job, within a budget.

    Raises what reading its question and answering it raise.
    """
    with deps.way_outs.answer_first():
        job = _judge(deps, request, submission, budget)
    link = _link(deps, job.named)
    unfound = explain_unfound(submission.scheduler, is_linked=link is not None)
    shortage = find_shortage(deps, job, wait_s=terms.count_remaining_s(), unfound=unfound)
    if shortage is None and job.question.open_fields:
        raise refuse_open(job.question.open_fields)
    decision = (
        _allow(job) if shortage is None else _settle(submission, job.question, shortage, terms.mode)
    )
    changed = _name_changed(deps, request, submission, decision, budget)
    return replace(
        decision,
        sentence=make_line(decision.sentence, link),
        question=changed or job.named,
        before=None if changed is None else job.named,
        needed_bytes=count_needed_bytes(job.report),
        usable_bytes=job.report.device.usable_bytes,
    )


def _judge(
    deps: Dependencies, request: Request[Any, Any, Any], submission: Submission, budget: Budget
) -> JudgedJob:
    question = _read_question(deps, request, submission, budget)
    model = resolve_model(deps, question.request.model, request.scope)
    deps.cluster_names.require(get_or_default(question.request.cluster, ""))
    calibrations = deps.corrections.version
    parts = frozenset({FitPart.REPLAY}) if deps.settings.hook_replay else NO_PARTS
    fit_question = replace(read_fit(question.request, model), parts=parts)
    plans = deps.plans.with_cancellation(budget.check)
    report = judge_fit(fit_question, plans=plans, find_corrections=budget.limit(deps.corrections))
    return JudgedJob(
        question=question,
        named=digest_question(question.request),
        model=model,
        fit_question=fit_question,
        report=report,
        calibrations=calibrations,
    )


def _name_changed(
    deps: Dependencies,
    request: Request[Any, Any, Any],
    submission: Submission,
    decision: Decision,
    budget: Budget,
) -> HookQuestion | None:
    """Return the question of a job on the GPUs that it gets.

    On these it will be measured.
    """
    gpus = submission.gpus
    if decision.action is not Action.CHANGE or gpus is None or decision.per_node is None:
        return None
    changed = replace(submission, gpus=replace(gpus, per_node=decision.per_node))
    return digest_question(_read_question(deps, request, changed, budget).request)


def _read_question(
    deps: Dependencies, request: Request[Any, Any, Any], submission: Submission, budget: Budget
) -> SubmissionQuestion:
    """Return the question of a job.

    A long script is read in a process of its own.
    """
    find = find_by(partial(resolve_model, deps, scope=request.scope))
    default_gpu, cluster = deps.settings.hook_gpu, deps.settings.hook_cluster
    length = submission.length
    if length <= SMALL_BYTES:
        return read_submission(submission, find, default_gpu=default_gpu, cluster=cluster)

    def read(checkpoints: Checkpoints) -> SubmissionQuestion:
        return deps.files.call(
            partial(read_job, submission, default_gpu, cluster, checkpoints), length, budget
        )

    return read_with_models(read, find)


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


def _allow(job: JudgedJob) -> Decision:
    question = job.question
    is_tight = job.report.verdict is not Verdict.FITS
    word = "is tight" if is_tight else "fits"
    assumed = f" {', '.join(question.assumed)}" if question.assumed else ""
    return Decision(
        verdict=HookVerdict.TIGHT if is_tight else HookVerdict.FITS,
        action=Action.WARN if is_tight else Action.ALLOW,
        sentence=make_line(f"headroom: {word}{assumed}: {describe_need(job)}"),
        gpu=question.gpu,
    )
