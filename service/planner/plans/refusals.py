"""Reasons for a question without a plan, in one sentence each.

What is too few, what a rule forbids, and what the request contradicts.
"""

from collections.abc import Sequence

from service.estimator.model.architecture import Architecture
from service.estimator.rules.violations import find_violation
from service.estimator.values.errors import EstimatorError, InvalidInputError
from service.estimator.values.layout import Layout
from service.estimator.values.units import ceil_div
from service.estimator.values.workload import Engine, ServeWorkload
from service.planner.fit.candidates import Rejection
from service.planner.search.layouts import SearchSpace
from service.planner.search.offer import Offer
from service.planner.search.search import Search
from service.planner.search.search_space import Question

_SPREADING = (Engine.VLLM, Engine.SGLANG)
"""Engines that answer for most models, by how many serve with them."""


def explain_no_plan(
    question: Question,
    offer: Offer,
    counts: Sequence[int],
    closest: Rejection,
    *,
    placeable: Sequence[int] = (),
    model: Architecture,
) -> str:
    """Explain why no number of GPUs is enough.

    Of those that are ``placeable``, ``counts`` have layouts and are within the budget.
    """
    closest_is = f"the closest is {closest.num_gpus}: {closest.reason}"
    budget = question.limits.max_cost_per_hour
    if budget is not None and placeable and (offer.cost_per_hour(placeable[-1]) or 0) > budget:
        return f"{_explain_budget(question, offer, counts)}; {closest_is}"
    if isinstance(question.workload, ServeWorkload) and closest.missing_bytes:
        spreading = " or ".join(_list_spreading_engines(model, question))
        advice = f"; engine {spreading} spreads its weights" if spreading else ""
        return (
            f"one replica does not fit on {_format_gpus(closest.num_gpus)}: {closest.reason}; more "
            f"replicas do not shrink it{advice}"
        )
    if offer.device.mig_profile is not None:
        return f"a job has one MIG slice, and this one is too small: {closest.reason}"
    if len(counts) == 1 and not question.is_open("data_parallel"):
        verb = "GPU is" if counts[0] == 1 else "GPUs are"
        return f"{counts[0]} {verb} too few, and the request fixes their number: {closest.reason}"
    max_gpus = question.limits.max_gpus
    if offer.max_gpus is not None and offer.max_gpus < max_gpus:
        return (
            f"there are {offer.max_gpus} {offer.device.name}, and no number of them is enough; "
            f"{closest_is}"
        )
    return f"max_gpus is {max_gpus}, and no number up to it is enough; {closest_is}"


def _list_spreading_engines(model: Architecture, question: Question) -> tuple[str, ...]:
    """Return the engines that share a model's weights between GPUs.

    None are named where the requested one does so itself, or has no second GPU.
    """
    workload, pair = question.workload, Layout(tensor_parallel=2)
    if not isinstance(workload, ServeWorkload) or question.limits.max_gpus < pair.num_gpus:
        return ()
    if find_violation(model, workload, pair) is None:
        return ()
    return tuple(
        engine.value
        for engine in _SPREADING
        if find_violation(
            model, ServeWorkload(num_sequences=1, prompt_tokens=1, engine=engine), pair
        )
        is None
    )


def _explain_budget(question: Question, offer: Offer, counts: Sequence[int]) -> str:
    budget, price = question.limits.max_cost_per_hour, offer.price_per_gpu_hour
    pays = (
        f"max_cost_per_hour is {budget:,.2f} USD, which pays for {counts[-1]} {offer.device.name} "
        f"at {price:,.2f} USD each"
    )
    return f"{pays}, and {'that is not' if counts[-1] == 1 else 'no number up to it is'} enough"


def explain_too_few(space: SearchSpace, offer: Offer) -> str | None:
    """Explain why the request takes more GPUs than there are.

    None where it does not.
    """
    layout, question = space.base_layout, space.question
    min_gpus, takes = layout.num_gpus, f"the layout takes {_format_gpus(layout.num_gpus)}"
    replicas = _count_replicas(question)
    if replicas is not None:
        replica_gpus = replicas * (layout.num_gpus // layout.data_parallel)
        min_gpus = (
            replica_gpus
            if replica_gpus <= layout.gpus_per_node
            else ceil_div(replica_gpus, layout.gpus_per_node) * layout.gpus_per_node
        )
        takes = (
            f"min_num_sequences {question.limits.min_num_sequences:,} takes {replicas:,} replicas, "
            f"at least {_format_gpus(min_gpus)}"
        )
    if offer.pool is not None and offer.max_gpus is not None and min_gpus > offer.max_gpus:
        return f"never: {takes}, and there are {offer.max_gpus} {offer.device.name}"
    if replicas is not None and min_gpus > question.limits.max_gpus:
        return f"{takes}, and max_gpus is {question.limits.max_gpus}"
    return None


def explain_too_expensive(space: SearchSpace, offer: Offer) -> str | None:
    """Explain why the hourly budget is too small.

    It does not pay for the fewest GPUs there can be; None where it does.
    """
    budget = space.question.limits.max_cost_per_hour
    if budget is None or not space.counts:
        return None
    min_cost = offer.cost_per_hour(space.counts[0])
    if min_cost is None or min_cost <= budget:
        return None
    verb = "costs" if space.counts[0] == 1 else "cost"
    return (
        f"max_cost_per_hour is {budget:,.2f} USD, and {space.counts[0]} {offer.device.name} {verb} "
        f"{min_cost:,.2f} USD"
    )


def _count_replicas(question: Question) -> int | None:
    """Return the replicas that serve the requested sequences.

    None where the request does not leave their number open.
    """
    workload, min_sequences = question.workload, question.limits.min_num_sequences
    if (
        min_sequences is None
        or not isinstance(workload, ServeWorkload)
        or not question.is_open("data_parallel")
    ):
        return None
    return ceil_div(min_sequences, workload.num_sequences)


def _format_gpus(number: int) -> str:
    return "1 GPU" if number == 1 else f"{number:,} GPUs"


def find_refusal(search: Search) -> EstimatorError | None:
    """Return the error of the first configuration that a rule forbids.

    It is in the estimator's words or in the rule's.
    """
    if search.space.first_refused is None:
        return None
    workload, layout = search.space.first_refused
    try:
        search.evaluator.estimate_numbers(workload, layout)
    except EstimatorError as refusal:
        return refusal
    illegal = find_violation(search.evaluator.architecture, workload, layout)
    return None if illegal is None else InvalidInputError(illegal.reason, field=illegal.field)


def make_contradiction_error(space: SearchSpace, offer: Offer) -> InvalidInputError:
    """Return an error for a request that contradicts itself.

    No number of GPUs is left to try.
    """
    limits, layout = space.question.limits, space.base_layout
    if offer.device.mig_profile is not None and layout.num_gpus > 1:
        message = (
            f"a job has one MIG slice, and the layout takes {layout.num_gpus}: slices cannot work "
            "together"
        )
        return InvalidInputError(message, field="layout")
    if limits.global_batch_size is not None:
        message = (
            f"no micro batch on up to {limits.max_gpus} GPUs makes a global batch of "
            f"{limits.global_batch_size}"
        )
        return InvalidInputError(message, field="constraints.global_batch_size")
    workload = space.question.workload
    if limits.min_num_sequences is not None and isinstance(workload, ServeWorkload):
        replicas = ceil_div(limits.min_num_sequences, workload.num_sequences)
        message = (
            f"min_num_sequences {limits.min_num_sequences} takes {replicas} replicas of "
            f"{workload.num_sequences}, and none"
        )
        return InvalidInputError(
            f"{message} of {limits.max_gpus} GPUs are as many",
            field="constraints.min_num_sequences",
        )
    message = f"the layout takes at least {layout.num_gpus} GPUs, but max_gpus is {limits.max_gpus}"
    return InvalidInputError(message, field="constraints.max_gpus")
