"""Numbers of GPUs that a question may be asked of, and why no layout fills some of them."""

from collections.abc import Iterator
from dataclasses import dataclass

from service.estimator.layout import Layout
from service.estimator.workload import ServeWorkload
from service.planner.offer import Offer
from service.planner.space import Question


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfilled:
    """A number of GPUs for which there is no layout to try, and why."""

    num_gpus: int
    reason: str


def numbers_of(question: Question, offer: Offer, asked: Layout) -> tuple[int, ...]:
    """Return numbers of GPUs, ascending: any number within a node, then whole nodes; a job has one MIG slice."""
    limits, per_node = question.limits, asked.gpus_per_node
    most = min(limits.max_gpus, limits.max_gpus if offer.max_gpus is None else offer.max_gpus)
    if limits.max_nodes is not None:
        most = min(most, limits.max_nodes * per_node)
    numbers = (*range(1, min(per_node, most) + 1), *range(2 * per_node, most + 1, per_node))
    alone = offer.device.mig_profile is not None and not isinstance(question.workload, ServeWorkload)
    return numbers[:1] if alone else numbers


def unfilled(question: Question, numbers: tuple[int, ...], tried: frozenset[int]) -> Iterator[Unfilled]:
    """Yield the numbers that were not tried, each with the request's bound or the model's division that leaves it out."""
    for number in numbers:
        if number not in tried:
            yield Unfilled(num_gpus=number, reason=_why(question, number))


def _why(question: Question, number: int) -> str:
    limits, workload, gpus = question.limits, question.workload, "1 GPU" if number == 1 else f"{number} GPUs"
    least = limits.min_num_sequences
    if isinstance(workload, ServeWorkload) and least is not None and number * workload.num_sequences < least:
        most = number * workload.num_sequences
        return f"{gpus} hold {number} replicas at most, which serve {most:,} sequences at once, fewer than {least:,}"
    if limits.global_batch_size is not None:
        return f"no legal layout: no degrees and micro batch that fill {gpus} make a global batch of {limits.global_batch_size}"
    return f"no legal layout: no degrees that divide the model, and that the request allows, fill {gpus}"
