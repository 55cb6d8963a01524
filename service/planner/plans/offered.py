"""Plans of one question on each offered kind of GPU.

Where there is none, the reason: nothing is enough, or it cannot be asked there.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf

from service.estimator.values.errors import EstimatorError, InvalidInputError
from service.planner.fit.candidates import Candidate, Rejection
from service.planner.fit.evaluator import Evaluator
from service.planner.fit.remedy import Remedy
from service.planner.plans.no_layout_reasons import NoLayoutReason
from service.planner.search.offer import Offer


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchCounts:
    """Counts of configurations in a search.

    Those that were considered, how many of them were estimated, and how many needed no estimate, by
    reason.
    """

    layouts: int
    estimated: int
    pruned: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The best plan on one kind of GPU.

    Without a number the reason, the closest miss and what helps.
    """

    num_gpus: int | None
    candidates: tuple[Candidate, ...]
    rejected: tuple[Rejection, ...]
    searched: SearchCounts
    no_layout_reasons: tuple[NoLayoutReason, ...] = ()
    """Reasons of smaller numbers that no layout fills."""
    reason: str | None = None
    closest: Rejection | None = None
    smallest_change: Remedy | None = None
    beyond: "Beyond | None" = None
    """What more GPUs than the request allows would do, where none that it allows is enough."""
    is_refused: bool = False
    """Whether no configuration can run there at all, or has a term; the reason says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Beyond:
    """Numbers of GPUs beyond those that a request allows.

    The latter are too few. ``num_gpus`` is the fewest that are enough, None where none up to
    ``max_gpus`` is.
    """

    allowed_gpus: int
    num_gpus: int | None
    max_gpus: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferPlan:
    """The plan on one offer."""

    offer: Offer
    evaluator: Evaluator
    plan: Plan

    @property
    def cost_per_hour(self) -> float | None:
        """Return the cost of the plan's GPUs in USD.

        None where there is no plan or no price.
        """
        return None if self.plan.num_gpus is None else self.offer.cost_per_hour(self.plan.num_gpus)

    def compute_run_cost(self, candidate: Candidate) -> float | None:
        """Return the cost of a candidate's run in USD.

        None where its tokens, the rates or the price are unknown.
        """
        hours, per_hour = get_run_hours(candidate), self.offer.cost_per_hour(candidate.num_gpus)
        return None if hours is None or per_hour is None else round(hours * per_hour, 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plans:
    """Plans on all offers, in order, and the best of them.

    The best is None when there is none.
    """

    offer_plans: tuple[OfferPlan, ...]
    best: OfferPlan | None

    @property
    def nearest(self) -> OfferPlan:
        """The offer that lacks least; refused ones come last."""
        return min(
            self.offer_plans,
            key=lambda offer_plan: (
                offer_plan.plan.is_refused,
                _get_missing_bytes(offer_plan.plan),
            ),
        )


def _get_missing_bytes(plan: Plan) -> float:
    return inf if plan.closest is None else plan.closest.missing_bytes


def get_run_hours(candidate: Candidate) -> float | None:
    """Return the hours of a training run.

    None where its tokens or the GPU's rates are unknown.
    """
    return None if candidate.throughput is None else candidate.throughput.hours_for_tokens


def make_refused_plan(error: EstimatorError) -> Plan:
    """Return the plan of an offer that refuses the question.

    It has the reason.
    """
    searched = SearchCounts(layouts=0, estimated=0, pruned={})
    return Plan(
        num_gpus=None,
        candidates=(),
        rejected=(),
        searched=searched,
        reason=error.message,
        is_refused=True,
    )


def merge_refusals(refusals: Sequence[tuple[str, EstimatorError]]) -> EstimatorError:
    """Return one error for offers that all refuse.

    It is the one reason of all, or each kind of GPU by name with its own.
    """
    first = refusals[0][1]
    if all(error.message == first.message for _, error in refusals):
        return first
    fields = {error.field for _, error in refusals}
    reasons = "; ".join(f"{name}: {error.message}" for name, error in refusals)
    return InvalidInputError(
        f"none of these GPUs can be asked: {reasons}",
        field=first.field if len(fields) == 1 else "gpus",
    )
