"""Answers to fit questions.

They come from the cache of answers, from memory, or from a thread beside the event loop.

Only a name that this process never saw asks the database. What takes longer is computed beside the
event loop: the first answer about a configuration, and remedies where it does not fit, which are
dozens of questions, behind which no first answer waits. Those about models that come with their
questions are computed in a process beside this one. All are cancelled when the client has left, as
a page does at the next key.
"""

from dataclasses import dataclass, replace
from functools import partial
from time import thread_time

import anyio.to_thread
from litestar.types import ASGIApp, HTTPScope, Receive
from msgspec import UnsetType

from service.api.computing.budgets import Budget, TooCostlyError
from service.api.computing.searches import RemedyJob, add_remedies, judge
from service.api.computing.turns import Turns
from service.api.http.computing import compute, run_search
from service.api.http.decoding import read_json, require_json
from service.api.http.dependencies import Dependencies
from service.api.http.disconnect import run_until_disconnect
from service.api.resources.kept_answers import finish_answer, keep_answer, respond_kept
from service.api.resources.resolving import (
    bring_draft,
    resolve_cached_name,
    resolve_known_model,
    resolve_model,
)
from service.api.resources.waiting import add_bound
from service.contract.encoding import encode
from service.contract.schemas.fields import get_or_none
from service.contract.schemas.fit import FitRequest, ModelReference
from service.contract.to_answer.fit_parts.builder import PART_BUILDER, PartBuilder
from service.contract.to_answer.fit_parts.encoded import EncodedParts
from service.contract.to_answer.fits import build_fit_answer
from service.contract.to_question.drafts import find_hub_draft
from service.contract.to_question.fits import build_question, read_fit
from service.contract.to_question.models import ResolvedModel
from service.contract.to_question.pieces import (
    UNREADABLE,
    brings_model,
    decode_model,
    decode_pieces,
)
from service.estimator.values.classes.quick_init import init_quickly
from service.estimator.values.errors import UnknownModelTypeError
from service.estimator.values.workload import ServeWorkload
from service.planner.fit.evaluator import Evaluator
from service.planner.fit.fit import FitReport
from service.planner.fit.parts import FitPart
from service.planner.fit.remedy import RemedySearch
from service.planner.fit.verdict import Verdict
from service.telemetry.spans import span
from service.usecases.questions.fit import (
    FitQuestion,
    judge_fit,
    judge_kept,
    make_question_evaluator,
)
from service.usecases.questions.remedies import add_fit_remedies

QUICK_S = 0.02
"""Processor's time up to which an answer is made on the event loop the next time: others wait for
it.
"""

MAX_SHOWN = 2048
"""Lists of answers that are kept as they are shown, three of a configuration on a GPU, of a
kilobyte or two each.
"""


async def respond(deps: Dependencies, scope: HTTPScope, receive: Receive, body: bytes) -> ASGIApp:
    """Answer one request, from the cache of answers if possible."""
    require_json(scope)
    calibrations = deps.corrections.version
    answer = deps.answers.find(
        body, calibrations=calibrations, get_model_version=deps.specs.get_version
    )
    if answer is not None:
        deps.metrics.count_fit(answer.counted_as)
        deps.metrics.count_cached_fit()
        return respond_kept(scope, answer)
    question, model = await _read_question(deps, scope, body)
    if deps.cluster_names.needs_lookup(question.cluster):
        await anyio.to_thread.run_sync(deps.cluster_names.require, question.cluster)
    job = _Job(
        deps=deps,
        scope=scope,
        body=body,
        model=model,
        question=question,
        calibrations=calibrations,
    )
    with span("fit.judge"):
        report = job.judge_kept()
    if report is None:
        return await run_until_disconnect(receive, job.answer_first)
    if job.needs_remedies(report):
        return await run_until_disconnect(
            receive, partial(job.answer_with_remedies, report, deps.remedy_turns)
        )
    return job.finish(report)


@init_quickly
@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """Resolved question and the key of its answer."""

    deps: Dependencies
    scope: HTTPScope
    body: bytes
    model: ResolvedModel
    question: FitQuestion
    calibrations: int

    def needs_remedies(self, report: FitReport) -> bool:
        """Return whether remedies are asked for and there is something to remedy."""
        return FitPart.REMEDIES in self.question.parts and report.verdict is not Verdict.FITS

    def _has_shared_model(self) -> bool:
        """Return whether other questions about the model have the very same one."""
        return self.model.name is not None and self.question.architecture is self.model.architecture

    def judge_kept(self) -> FitReport | None:
        """Answer from memory, but for remedies; None where that takes longer."""
        answered, question = self.deps.answered_questions, self.question
        if not answered.has_answered(question):
            return None
        started = thread_time()
        report = judge_kept(self._get_evaluator(), question)
        if thread_time() - started > QUICK_S:
            answered.record(question, is_quick=False)
        return report

    def _get_evaluator(self) -> Evaluator:
        deps, question = self.deps, self.question
        if self._has_shared_model():
            return deps.evaluators.get(
                question, plans=deps.plans, find_corrections=deps.corrections
            )
        return make_question_evaluator(question, deps.plans, deps.corrections)

    async def answer_first(self) -> ASGIApp:
        """Answer a configuration that this process never answered, beside the event loop."""
        deps = self.deps
        with span("fit.judge"):
            report, is_quick = await compute(
                deps, self.scope, deps.first_answer_turns, self._judge_first
            )
        deps.answered_questions.record(self.question, is_quick=is_quick)
        if self.needs_remedies(report):
            return await self.answer_with_remedies(report, deps.first_remedy_turns)
        return self.finish(report)

    def _judge_first(self, budget: Budget) -> tuple[FitReport, bool]:
        """Return the report and whether it was quick."""
        if self._goes_beside():
            return run_search(self.deps, judge, self.question, budget), False
        plans = self.deps.plans.with_cancellation(budget.check)
        find = budget.limit(self.deps.corrections)
        report = judge_fit(self.question, plans=plans, find_corrections=find)
        return report, budget.count() <= QUICK_S

    def _goes_beside(self) -> bool:
        """Return whether another process computes the answer.

        A model that comes with its question may be any: hundreds of layers, of as many kinds, are
        replayed for seconds, and the compiled replay lets no other thread run for long. One that is
        known by name takes a tenth of a second, after which this process answers by itself.
        """
        return self.model.name is None and not self.deps.searches.is_here

    async def answer_with_remedies(self, report: FitReport, turns: Turns) -> ASGIApp:
        """Look for remedies beside the event loop."""
        with span("fit.help"):
            remedied = await compute(
                self.deps, self.scope, turns, partial(self._add_remedies, report)
            )
        return self.finish(remedied)

    def _add_remedies(self, report: FitReport, budget: Budget) -> FitReport:
        deps, question = self.deps, self.question
        try:
            if self._goes_beside():
                return run_search(
                    deps, add_remedies, RemedyJob(report=report, question=question), budget
                )
            plans = deps.plans.with_cancellation(budget.check)
            return add_fit_remedies(report, question, plans, budget.limit(deps.corrections))
        except TooCostlyError:
            return replace(report, remedy_search=_make_ended_search(budget.seconds))

    def finish(self, report: FitReport) -> ASGIApp:
        """Encode the answer, cache it and send it."""
        question, deps, verdict = self.question, self.deps, report.verdict.value
        body = encode(
            build_fit_answer(
                report,
                assumptions=question.assumptions,
                parts=question.parts,
                cluster=question.cluster,
                builder=self._select_builder(),
            )
        )
        deps.metrics.count_fit(verdict)
        answer = finish_answer(body, verdict, self.model)
        keep_answer(deps, self.body, answer, self.model, calibrations=self.calibrations)
        return respond_kept(self.scope, answer)

    def _select_builder(self) -> PartBuilder:
        """Return the builder of the answer's lists.

        A server's are its load's own.
        """
        if isinstance(self.question.workload, ServeWorkload):
            return PART_BUILDER
        return EncodedParts(self.deps.plans.get_memo("shown parts", MAX_SHOWN))


def _make_ended_search(budget_s: float) -> RemedySearch:
    """Return the search for remedies that its budget ended."""
    conclusion = (
        f"no remedies are shown: looking for them takes more than {budget_s:g} s of a processor, "
        "which is what one question may"
    )
    return RemedySearch(
        num_estimates=0, max_estimates=0, num_changes=0, is_complete=False, conclusion=conclusion
    )


async def _read_question(
    deps: Dependencies, scope: HTTPScope, body: bytes
) -> tuple[FitQuestion, ResolvedModel]:
    """Return the question of a request, and its model.

    It is read piece by piece where that is enough, and in full where something is to be refused.
    """
    if not brings_model(body):
        try:
            raw_model, pieces = decode_pieces(body)
            reference = decode_model(raw_model)
        except UNREADABLE:
            pass
        else:
            with add_bound(lambda model: build_question(pieces, model)):
                model = await _resolve_model(deps, scope, reference)
            return build_question(pieces, model), model
    request = read_json(body, FitRequest)
    if find_hub_draft(request.workload) is not None:
        bring = partial(bring_draft, deps, request, scope)
        request = await anyio.to_thread.run_sync(bring, limiter=deps.hub_limiter)
    with add_bound(partial(read_fit, request)):
        model = await _resolve_model(deps, scope, request.model)
    return read_fit(request, model), model


async def _resolve_model(
    deps: Dependencies, scope: HTTPScope, reference: ModelReference
) -> ResolvedModel:
    if isinstance(reference, str):
        cached = resolve_cached_name(deps, reference, scope)
        if cached is not None:
            return cached
    resolve = partial(resolve_model, deps, reference, scope)
    if not isinstance(reference, str) and not isinstance(reference.hub, UnsetType):
        return await anyio.to_thread.run_sync(resolve, limiter=deps.hub_limiter)
    name = reference if isinstance(reference, str) else get_or_none(reference.name)
    if name is not None and deps.specs.get_cached(name) is None:
        return await anyio.to_thread.run_sync(resolve)
    try:
        return resolve_known_model(deps, reference, scope)
    except UnknownModelTypeError:
        # Whether its config was recorded, the database says.
        return await anyio.to_thread.run_sync(resolve)
