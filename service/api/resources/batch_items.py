"""Items of a batch, each answered as POST /v1/fit would.

Equal items, and equal pieces of them, are worked out once.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from itertools import islice

import msgspec
from litestar.types import Scope

from service.api.computing.budgets import Budget, TooCostlyError, limit_lookup
from service.api.http.decoding import MAX_BODY_BYTES, check_free_values, read_json
from service.api.http.dependencies import Dependencies
from service.api.http.problems import report_fault
from service.api.resources.kept_answers import finish_answer, keep_answer
from service.api.resources.resolving import bring_draft, resolve_model
from service.api.resources.waiting import add_bound
from service.base.errors import BodyTooLargeError, ServiceError
from service.contract.encoding import encode
from service.contract.schemas.fit import FitRequest
from service.contract.to_answer.fits import build_fit_answer
from service.contract.to_answer.problems import build_refusal
from service.contract.to_question.fits import build_question, read_fit
from service.contract.to_question.models import ResolvedModel
from service.contract.to_question.pieces import UNREADABLE, decode_model, decode_pieces
from service.estimator.values.errors import EstimatorError
from service.planner.fit.fit import assess_fit
from service.planner.fit.parts import NO_PARTS
from service.planner.fit.verdict import Verdict
from service.usecases.questions.evaluators import EvaluatorCache
from service.usecases.questions.fit import FitQuestion
from service.usecases.questions.remedies import add_fit_remedies
from service.usecases.stored_specs.waiting import WaitingModelError

MAX_BUDGETS = 10
"""Budgets of one question that a whole batch may take."""
MAX_KEPT = 512
"""Answers in full of one batch that are kept for the next: each is hashed on the event loop."""


@dataclass(frozen=True, slots=True)
class _Fit:
    """Encoded answer with its verdict.

    ``model`` is what a new answer in full rests on, which may be kept.
    """

    verdict: str
    body: bytes
    model: ResolvedModel | None = None


def _refuse_large(item: bytes) -> None:
    """Refuse an item that POST /v1/fit would refuse for its size."""
    if len(item) > MAX_BODY_BYTES:
        message = f"an item has at most {MAX_BODY_BYTES:,} bytes, as a body of /v1/fit"
        raise BodyTooLargeError(message)


class BatchItems:
    """Answers items one by one and caches what they share.

    ``request_id`` is where the log finds faults.
    """

    def __init__(self, deps: Dependencies, *, full: bool, scope: Scope, request_id: str) -> None:
        """Start with empty caches."""
        self._deps, self._scope, self._request_id = deps, scope, request_id
        self._path: str = scope["path"]
        self._full = full
        self._answers: dict[bytes, _Fit | dict[str, object]] = {}
        self._models: dict[bytes, ResolvedModel] = {}
        self._evaluators = EvaluatorCache()
        self.verdicts: Counter[str] = Counter()
        self._calibrations = deps.corrections.version
        self._plans = deps.plans.with_cancellation(self._check)
        self._find = limit_lookup(deps.corrections, self._check)
        self._budget: Budget | None = None
        self._spent_s = 0.0

    def recall(self, items: Iterable[bytes]) -> None:
        """Take answers in full that were given before, as POST /v1/fit does.

        To be called by the thread that has the cache of answers.
        """
        for item in dict.fromkeys(items) if self._full else ():
            answer = self._deps.answers.find(
                item,
                calibrations=self._calibrations,
                get_model_version=self._deps.specs.get_version,
            )
            if answer is not None:
                self._answers[item] = _Fit(answer.counted_as, answer.body)

    def keep(self) -> None:
        """Keep answers in full that are new, for whoever asks again.

        To be called by the thread that has the cache of answers.
        """
        new = (
            (item, answer, answer.model)
            for item, answer in self._answers.items()
            if isinstance(answer, _Fit) and answer.model is not None
        )
        for item, answer, model in islice(new, MAX_KEPT):
            # Remedies take a hundred times as long as the answer that they help.
            keep_answer(
                self._deps,
                item,
                finish_answer(answer.body, answer.verdict, model),
                model,
                calibrations=self._calibrations,
                is_costly=answer.verdict != Verdict.FITS.value,
            )

    def answer(self, index: int, item: bytes, budget: Budget) -> bytes:
        """Return one item's answer as JSON.

        A refusal is a problem document, and so is a fault of the service. ``budget`` is that of
        the present slice, of the thread that calls.
        """
        self._budget = budget
        instance = f"{self._path}#/items/{index}"
        answer = self._answers.get(item)
        if answer is None:
            started_s = budget.count()
            answer = self._answers[item] = self._answer_new(item, instance)
            self._spent_s += budget.count() - started_s
        if isinstance(answer, dict):
            return msgspec.json.encode({"problem": answer | {"instance": instance}})
        self.verdicts[answer.verdict] += 1
        return answer.body

    def _check(self) -> None:
        if self._budget is not None:
            self._budget.check()

    def _refuse_costly(self) -> None:
        """Refuse further items of a batch past its budget."""
        most_s = MAX_BUDGETS * self._deps.settings.question_budget_s
        if self._spent_s > most_s:
            message = (
                f"the items before this one took more than {most_s:g} s of a processor, which is "
                "what one batch may; send this one in another batch"
            )
            raise TooCostlyError(message, budget_s=most_s)

    def _answer_new(self, item: bytes, instance: str) -> _Fit | dict[str, object]:
        try:
            self._refuse_costly()
            _refuse_large(item)
            return self._answer_item(item)
        except (ServiceError, EstimatorError) as error:
            return build_refusal(error, instance=instance)
        except Exception as error:  # noqa: BLE001 - one item's fault must not lose the answers to all others
            return report_fault(
                error, instance=instance, method="POST", request_id=self._request_id
            )

    def _answer_item(self, item: bytes) -> _Fit:
        question, model = self._read_question(item)
        self._deps.cluster_names.require(question.cluster)
        evaluator = self._evaluators.get(question, plans=self._plans, find_corrections=self._find)
        workload, layout, parts = question.workload, question.layout, question.parts
        if not self._full:
            # What an engine explains for nothing is shown.
            report = assess_fit(evaluator, workload, layout, NO_PARTS)
            answer = build_fit_answer(
                report, assumptions=question.assumptions, cluster=question.cluster
            )
            return _Fit(report.verdict.value, encode(answer))
        report = assess_fit(evaluator, workload, layout, parts)
        report = add_fit_remedies(report, question, self._plans, self._find)
        answer = build_fit_answer(
            report, assumptions=question.assumptions, parts=parts, cluster=question.cluster
        )
        return _Fit(report.verdict.value, encode(answer), model)

    def _read_question(self, item: bytes) -> tuple[FitQuestion, ResolvedModel]:
        """Return the question of an item, and its model.

        One whose pieces cannot be read is read in full, which refuses it in its own words.
        """
        try:
            check_free_values(item)
            raw_model, pieces = decode_pieces(item)
            with add_bound(lambda model: build_question(pieces, model)):
                model = self._get_model(raw_model)
            return build_question(pieces, model), model
        except WaitingModelError:
            raise
        except UNREADABLE:
            request = bring_draft(self._deps, read_json(item, FitRequest), self._scope)
            with add_bound(partial(read_fit, request)):
                model = resolve_model(self._deps, request.model, self._scope)
            return read_fit(request, model), model

    def _get_model(self, raw_model: bytes) -> ResolvedModel:
        model = self._models.get(raw_model)
        if model is None:
            model = resolve_model(self._deps, decode_model(raw_model), self._scope)
            self._models[raw_model] = model
        return model
