"""GPU counts that a question may be asked of."""

from service.estimator.values.layout import Layout
from service.estimator.values.workload import ServeWorkload
from service.planner.search.offer import Offer
from service.planner.search.search_space import Question


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
