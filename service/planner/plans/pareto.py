"""Pareto front of plans by memory per GPU, time and cost.

No other plan beats one of the front in memory per GPU, time per token and cost at once, nor of
replicas in the time of a decode step, which more of them do not shorten.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from service.estimator.values.workload import TrainWorkload
from service.planner.fit.candidates import Candidate
from service.planner.plans.offered import OfferPlan, Plans
from service.planner.search.layouts import SearchSpace
from service.planner.search.offer import Offer
from service.planner.search.search import Search
from service.planner.search.search_space import Question

MAX_KINDS = 8
"""Strategies and recomputations of one GPU count that are compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParetoPoint:
    """One plan of the front.

    ``cost`` is USD per hour, or GPUs where the price is unknown.
    """

    offer: Offer
    candidate: Candidate
    cost: float

    def beats(self, other: "ParetoPoint") -> bool:
        """Return whether this point dominates another.

        It is no worse in anything and better in something.
        """
        own_measures, other_measures = self._measures, other._measures  # noqa: SLF001 - of the same class
        return own_measures != other_measures and all(
            mine <= its for mine, its in zip(own_measures, other_measures, strict=True)
        )

    @property
    def _measures(self) -> tuple[float, ...]:
        candidate = self.candidate
        measures = candidate.estimate.device_bytes, candidate.seconds_per_token, self.cost
        if candidate.throughput is None or isinstance(candidate.workload, TrainWorkload):
            return measures
        return *measures, candidate.throughput.step_time_s


def find_pareto_front(plans: Plans, question: Question) -> tuple[ParetoPoint, ...]:
    """Return the Pareto front, the cheapest first.

    It has the fewest GPUs of each kind, and twice as many as often as is allowed.
    """
    points = [point for offered in plans.offer_plans for point in _iter_points(offered, question)]
    pareto_points = [point for point in points if not any(other.beats(point) for other in points)]
    return tuple(
        sorted(pareto_points, key=lambda point: (point.cost, point.candidate.seconds_per_token))
    )


def _iter_points(offered: OfferPlan, question: Question) -> Iterator[ParetoPoint]:
    fewest, offer = offered.plan.num_gpus, offered.offer
    if fewest is None:
        return
    space = SearchSpace(offered.evaluator.architecture, question, offer)
    search = Search(offered.evaluator, space)
    for count in _iter_counts(fewest, space.counts):
        cost = offer.cost_per_hour(count)
        for index, candidate in enumerate(search.iter_best(count)):
            if index == MAX_KINDS:
                break
            yield ParetoPoint(
                offer=offer, candidate=candidate, cost=count if cost is None else cost
            )


def _iter_counts(fewest: int, counts: tuple[int, ...]) -> Iterator[int]:
    """Yield the fewest GPUs and its doubles.

    Each is the next number that can be filled.
    """
    minimum = fewest
    while (count := next((number for number in counts if number >= minimum), None)) is not None:
        yield count
        minimum = max(2 * minimum, count + 1)
