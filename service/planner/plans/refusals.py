"""Why a question has no plan: what is too few, what a rule forbids, and what the request contradicts, in one sentence each."""

from collections.abc import Sequence

from service.estimator.values.errors import EstimatorError, InvalidInputError
from service.estimator.values.units import ceil_div
from service.estimator.values.workload import ServeWorkload
from service.planner.fit.candidates import Rejected
from service.planner.legality.legal import legal
from service.planner.search.layouts import Space
from service.planner.search.offer import Offer
from service.planner.search.search import Search
from service.planner.search.search_space import Question


def why_none(
    question: Question, offer: Offer, counts: Sequence[int], closest: Rejected, *, placeable: Sequence[int] = ()
) -> str:
    """Return why no number of GPUs is enough; of those that are ``placeable``, ``counts`` have layouts and are paid for."""
    closest_is = f"the closest is {closest.num_gpus}: {closest.reason}"
    budget = question.limits.max_cost_per_hour
    if budget is not None and placeable and (offer.cost_per_hour(placeable[-1]) or 0) > budget:
        return f"{_paid_for(question, offer, counts)}; {closest_is}"
    if isinstance(question.workload, ServeWorkload) and closest.missing_bytes:
        return f"one replica does not fit on {_gpus(closest.num_gpus)}: {closest.reason}; more replicas do not shrink it"
    if offer.device.mig_profile is not None:
        return f"a job has one MIG slice, and this one is too small: {closest.reason}"
    if len(counts) == 1 and not question.is_open("data_parallel"):
        verb = "GPU is" if counts[0] == 1 else "GPUs are"
        return f"{counts[0]} {verb} too few, and the request fixes their number: {closest.reason}"
    most = question.limits.max_gpus
    if offer.max_gpus is not None and offer.max_gpus < most:
        return f"there are {offer.max_gpus} {offer.device.name}, and no number of them is enough; {closest_is}"
    return f"max_gpus is {most}, and no number up to it is enough; {closest_is}"


def _paid_for(question: Question, offer: Offer, counts: Sequence[int]) -> str:
    most, price = question.limits.max_cost_per_hour, offer.price_per_gpu_hour
    pays = f"max_cost_per_hour is {most:,.2f} USD, which pays for {counts[-1]} {offer.device.name} at {price:,.2f} USD each"
    return f"{pays}, and {'that is not' if counts[-1] == 1 else 'no number up to it is'} enough"


def too_few(space: Space, offer: Offer) -> str | None:
    """Return why there is no number to try where what is asked takes more GPUs than there are; None where it does not."""
    asked, question = space.asked, space.question
    least, takes = asked.num_gpus, f"the layout takes {_gpus(asked.num_gpus)}"
    replicas = _replicas(question)
    if replicas is not None:
        alone = replicas * (asked.num_gpus // asked.data_parallel)
        least = alone if alone <= asked.gpus_per_node else ceil_div(alone, asked.gpus_per_node) * asked.gpus_per_node
        takes = f"min_num_sequences {question.limits.min_num_sequences:,} takes {replicas:,} replicas, at least {_gpus(least)}"
    if offer.pool is not None and offer.max_gpus is not None and least > offer.max_gpus:
        return f"never: {takes}, and there are {offer.max_gpus} {offer.device.name}"
    if replicas is not None and least > question.limits.max_gpus:
        return f"{takes}, and max_gpus is {question.limits.max_gpus}"
    return None


def too_dear(space: Space, offer: Offer) -> str | None:
    """Return that the money an hour does not pay for the fewest GPUs there can be; None where it does."""
    most = space.question.limits.max_cost_per_hour
    if most is None or not space.counts:
        return None
    least = offer.cost_per_hour(space.counts[0])
    if least is None or least <= most:
        return None
    verb = "costs" if space.counts[0] == 1 else "cost"
    return f"max_cost_per_hour is {most:,.2f} USD, and {space.counts[0]} {offer.device.name} {verb} {least:,.2f} USD"


def _replicas(question: Question) -> int | None:
    """Return how many replicas serve as many sequences as are asked for; None where the request does not leave it open."""
    workload, least = question.workload, question.limits.min_num_sequences
    if least is None or not isinstance(workload, ServeWorkload) or not question.is_open("data_parallel"):
        return None
    return ceil_div(least, workload.num_sequences)


def _gpus(number: int) -> str:
    return "1 GPU" if number == 1 else f"{number:,} GPUs"


def why_refused(search: Search) -> EstimatorError | None:
    """Return why the first configuration that a rule forbids cannot run, in the estimator's words or in the rule's."""
    if search.space.refused is None:
        return None
    workload, layout = search.space.refused
    try:
        search.subject.numbers(workload, layout)
    except EstimatorError as refusal:
        return refusal
    illegal = legal(search.subject.architecture, workload, layout)
    return None if illegal is None else InvalidInputError(illegal.reason, field=illegal.field)


def nothing_to_try(space: Space, offer: Offer) -> InvalidInputError:
    """Return what of a request contradicts the rest, where no number of GPUs is left to try."""
    limits, layout = space.question.limits, space.asked
    if offer.device.mig_profile is not None and layout.num_gpus > 1:
        message = f"a job has one MIG slice, and the layout takes {layout.num_gpus}: slices cannot work together"
        return InvalidInputError(message, field="layout")
    if limits.global_batch_size is not None:
        message = f"no micro batch on up to {limits.max_gpus} GPUs makes a global batch of {limits.global_batch_size}"
        return InvalidInputError(message, field="constraints.global_batch_size")
    workload = space.question.workload
    if limits.min_num_sequences is not None and isinstance(workload, ServeWorkload):
        replicas = ceil_div(limits.min_num_sequences, workload.num_sequences)
        message = (
            f"min_num_sequences {limits.min_num_sequences} takes {replicas} replicas of {workload.num_sequences}, and none"
        )
        return InvalidInputError(f"{message} of {limits.max_gpus} GPUs are as many", field="constraints.min_num_sequences")
    message = f"the layout takes at least {layout.num_gpus} GPUs, but max_gpus is {limits.max_gpus}"
    return InvalidInputError(message, field="constraints.max_gpus")
