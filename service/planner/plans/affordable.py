"""Numbers of GPUs that are there and paid for."""

from collections.abc import Sequence

from service.estimator.values.errors import InvalidInputError
from service.planner.search.offer import Offer
from service.planner.search.search_space import Question


def list_placeable(counts: Sequence[int], offer: Offer) -> tuple[int, ...]:
    """Return the numbers of GPUs for which an offer has nodes."""
    return tuple(count for count in counts if offer.counts is None or count in offer.counts)


def list_affordable(counts: Sequence[int], question: Question, offer: Offer) -> tuple[int, ...]:
    """Return the numbers of GPUs that a budget pays for.

    Raises InvalidInputError where nobody told the price.
    """
    budget = question.limits.max_cost_per_hour
    if budget is None:
        return tuple(counts)
    if offer.price_per_gpu_hour is None:
        message = (
            f"max_cost_per_hour needs a price, and nobody told that of {offer.device.name}; say it "
            "in prices"
        )
        raise InvalidInputError(message, field="constraints.max_cost_per_hour")
    return tuple(count for count in counts if count * offer.price_per_gpu_hour <= budget)
