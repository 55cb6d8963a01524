"""What comes of a question on each kind of GPU that is offered: a plan, why there is none, or why it cannot be asked there."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf

from service.estimator.values.errors import EstimatorError, InvalidInputError
from service.planner.fit.candidates import Candidate, Rejected
from service.planner.fit.evaluator import Subject
from service.planner.fit.remedies import Remedy
from service.planner.plans.no_layout_reasons import Unfilled
from service.planner.search.offer import Offer


@dataclass(frozen=True, slots=True, kw_only=True)
class Searched:
    """Configurations that were considered, how many of them were estimated, and how many needed no estimate, by reason."""

    layouts: int
    estimated: int
    pruned: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The best on one kind of GPU; without a number the reason, the closest miss and what helps."""

    num_gpus: int | None
    candidates: tuple[Candidate, ...]
    rejected: tuple[Rejected, ...]
    searched: Searched
    unfilled: tuple[Unfilled, ...] = ()
    """Smaller numbers that no layout fills."""
    reason: str | None = None
    closest: Rejected | None = None
    smallest_change: Remedy | None = None
    is_refused: bool = False
    """Whether no configuration can run there at all, or has a term; the reason says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offered:
    """The plan on one offer."""

    offer: Offer
    subject: Subject
    plan: Plan

    @property
    def cost_per_hour(self) -> float | None:
        """Return what its GPUs cost in USD; None where there is no plan or no price."""
        return None if self.plan.num_gpus is None else self.offer.cost_per_hour(self.plan.num_gpus)

    def cost_of_run(self, candidate: Candidate) -> float | None:
        """Return what a candidate's run costs in USD; None where nobody told its tokens, the rates or the price."""
        hours, per_hour = hours_of_run(candidate), self.offer.cost_per_hour(candidate.num_gpus)
        return None if hours is None or per_hour is None else round(hours * per_hour, 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plans:
    """Plans on all offers in the order in which they were offered, and the best of them; None when there is none."""

    offered: tuple[Offered, ...]
    best: Offered | None

    @property
    def nearest(self) -> Offered:
        """Where least is missing; what is refused comes last."""
        return min(self.offered, key=lambda one: (one.plan.is_refused, _missing(one.plan)))


def _missing(plan: Plan) -> float:
    return inf if plan.closest is None else plan.closest.missing_bytes


def hours_of_run(candidate: Candidate) -> float | None:
    """Return how long a training run takes; None where nobody told its tokens or the GPU's rates."""
    return None if candidate.throughput is None else candidate.throughput.hours_for_tokens


def refused(error: EstimatorError) -> Plan:
    """Return that a question cannot be asked on one kind of GPU, and why."""
    searched = Searched(layouts=0, estimated=0, pruned={})
    return Plan(num_gpus=None, candidates=(), rejected=(), searched=searched, reason=error.message, is_refused=True)


def everywhere(refusals: Sequence[tuple[str, EstimatorError]]) -> EstimatorError:
    """Return why no kind of GPU can be asked, by name: the one reason of all, or each with its own."""
    first = refusals[0][1]
    if all(error.message == first.message for _, error in refusals):
        return first
    fields = {error.field for _, error in refusals}
    each = "; ".join(f"{name}: {error.message}" for name, error in refusals)
    return InvalidInputError(f"none of these GPUs can be asked: {each}", field=first.field if len(fields) == 1 else "gpus")
