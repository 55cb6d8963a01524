"""Offers: one kind of GPU, its topology, price and counts."""

from collections.abc import Sequence
from dataclasses import dataclass

from service.estimator.values.device import Device
from service.estimator.values.errors import InvalidInputError
from service.estimator.values.layout import Layout
from service.estimator.values.workload import ServeWorkload
from service.planner.search.search_space import Question


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """GPUs of one kind on offer.

    ``pool`` names the pool of a cluster that they come from, prices are in USD.

    None leaves to the question what it says: GPUs per node, the limit of the search, a node's
    memory, NVMe and network. Tensor parallelism stays within ``island_size`` GPUs, a node's where
    it is absent.
    """

    device: Device
    gpus_per_node: int | None = None
    island_size: int | None = None
    max_gpus: int | None = None
    host_memory_bytes: int | None = None
    nvme_bytes: int | None = None
    network_bytes_per_second: int | None = None
    price_per_gpu_hour: float | None = None
    pool: str | None = None
    counts: frozenset[int] | None = None
    """Numbers of GPUs that find nodes with equally many each; None is any number."""

    def __post_init__(self) -> None:
        """Refuse a negative price."""
        if self.price_per_gpu_hour is not None and not self.price_per_gpu_hour >= 0:
            message = (
                f"a GPU hour of {self.device.name} costs {self.price_per_gpu_hour}; it must be 0 "
                "or more"
            )
            raise InvalidInputError(message, field="prices")

    def cost_per_hour(self, num_gpus: int) -> float | None:
        """Return the cost of so many GPUs in USD per hour.

        None where the price is unknown.
        """
        return (
            None
            if self.price_per_gpu_hour is None
            else round(num_gpus * self.price_per_gpu_hour, 6)
        )


def list_gpu_counts(question: Question, offer: Offer, layout: Layout) -> tuple[int, ...]:
    """Return the GPU counts to search, ascending.

    Any number within a node, then whole nodes; a job has one MIG slice.
    """
    limits, per_node = question.limits, layout.gpus_per_node
    max_gpus = min(limits.max_gpus, limits.max_gpus if offer.max_gpus is None else offer.max_gpus)
    if limits.max_nodes is not None:
        max_gpus = min(max_gpus, limits.max_nodes * per_node)
    numbers = (*range(1, min(per_node, max_gpus) + 1), *range(2 * per_node, max_gpus + 1, per_node))
    is_single = offer.device.mig_profile is not None and not isinstance(
        question.workload, ServeWorkload
    )
    return numbers[:1] if is_single else numbers


def list_placeable(counts: Sequence[int], offer: Offer) -> tuple[int, ...]:
    """Return the numbers of GPUs for which an offer has nodes."""
    return tuple(count for count in counts if offer.counts is None or count in offer.counts)


def list_affordable(counts: Sequence[int], question: Question, offer: Offer) -> tuple[int, ...]:
    """Return the numbers of GPUs that find nodes and are paid for.

    Raises InvalidInputError where there is a budget and nobody told the price.
    """
    placeable, budget = list_placeable(counts, offer), question.limits.max_cost_per_hour
    if budget is None:
        return placeable
    if offer.price_per_gpu_hour is None:
        message = (
            f"max_cost_per_hour needs a price, and nobody told that of {offer.device.name}; say it "
            "in prices"
        )
        raise InvalidInputError(message, field="constraints.max_cost_per_hour")
    return tuple(count for count in placeable if count * offer.price_per_gpu_hour <= budget)
