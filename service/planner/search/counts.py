"""Numbers of GPUs that a question may be asked of."""

from service.estimator.values.layout import Layout
from service.estimator.values.workload import ServeWorkload
from service.planner.search.offer import Offer
from service.planner.search.search_space import Question


def numbers_of(question: Question, offer: Offer, asked: Layout) -> tuple[int, ...]:
    """Return numbers of GPUs, ascending: any number within a node, then whole nodes; a job has one MIG slice."""
    limits, per_node = question.limits, asked.gpus_per_node
    most = min(limits.max_gpus, limits.max_gpus if offer.max_gpus is None else offer.max_gpus)
    if limits.max_nodes is not None:
        most = min(most, limits.max_nodes * per_node)
    numbers = (*range(1, min(per_node, most) + 1), *range(2 * per_node, most + 1, per_node))
    alone = offer.device.mig_profile is not None and not isinstance(question.workload, ServeWorkload)
    return numbers[:1] if alone else numbers
