"""The plans that no other beats in memory per GPU, time per token and cost at once."""

from collections.abc import Iterator
from dataclasses import dataclass

from service.planner.fit.candidates import Candidate
from service.planner.plans.offered import Offered, Plans
from service.planner.search.layouts import Space
from service.planner.search.offer import Offer
from service.planner.search.search import Search
from service.planner.search.search_space import Question

MAX_KINDS = 8
"""Ways and recomputations of one number of GPUs that are compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One plan of the front; ``cost`` is USD per hour, or GPUs where nobody told the price."""

    offer: Offer
    candidate: Candidate
    cost: float

    def beats(self, other: "Point") -> bool:
        """Whether this is no worse in anything and better in something."""
        ours, theirs = self._measures, other._measures  # noqa: SLF001 - of the same class
        return ours != theirs and all(mine <= its for mine, its in zip(ours, theirs, strict=True))

    @property
    def _measures(self) -> tuple[float, float, float]:
        one = self.candidate
        return one.estimate.device_bytes, one.seconds_per_token, self.cost


def front(plans: Plans, question: Question) -> tuple[Point, ...]:
    """Return the front, the cheapest first: of the fewest GPUs of each kind, and of twice as many as often as is allowed."""
    points = [point for offered in plans.offered for point in _points(offered, question)]
    kept = [point for point in points if not any(other.beats(point) for other in points)]
    return tuple(sorted(kept, key=lambda point: (point.cost, point.candidate.seconds_per_token)))


def _points(offered: Offered, question: Question) -> Iterator[Point]:
    fewest, offer = offered.plan.num_gpus, offered.offer
    if fewest is None:
        return
    space = Space(offered.subject.architecture, question, offer)
    search = Search(offered.subject, space)
    for count in _counts(fewest, space.counts):
        cost = offer.cost_per_hour(count)
        for taken, candidate in enumerate(search.best(count)):
            if taken == MAX_KINDS:
                break
            yield Point(offer=offer, candidate=candidate, cost=count if cost is None else cost)


def _counts(fewest: int, counts: tuple[int, ...]) -> Iterator[int]:
    """Yield the fewest and its doubles, each the next number that can be filled."""
    wanted = fewest
    while (count := next((number for number in counts if number >= wanted), None)) is not None:
        yield count
        wanted = max(2 * wanted, count + 1)
