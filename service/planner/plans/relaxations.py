"""The smallest change to a question that has no plan.

Each is searched on the model itself, none is promised.
"""

from collections.abc import Iterator, Mapping
from dataclasses import fields, replace

from service.estimator.values.units import ceil_div
from service.estimator.values.workload import ServeWorkload
from service.planner.fit.candidates import Candidate
from service.planner.fit.evaluator import Evaluator
from service.planner.fit.remedy import Remedy
from service.planner.fit.verdict import Verdict, needed_bytes
from service.planner.plans.offered import Beyond
from service.planner.remedies.costs import compare_costs, time_config
from service.planner.remedies.effects import describe_effects
from service.planner.remedies.fewest import find_fewest
from service.planner.remedies.find import find_changes
from service.planner.remedies.other_gpus import OtherGpus
from service.planner.search.offer import Offer, list_affordable
from service.planner.search.search import Search
from service.planner.search.search_space import DEFAULT_MAX_GPUS, OFFLOADING, QUANTIZING

_UNSHARED = frozenset({"micro_batch_size", "gradient_accumulation_steps"})
"""Fields whose meaning for a job hangs on how many GPUs share its batch."""
_MAX_ESTIMATES = 60
"""Estimates of changes, beside those of the search."""


def find_smallest_change(
    search: Search, offer: Offer, nearest: Candidate, larger_gpus: OtherGpus
) -> Remedy | None:
    """Return the smallest change that helps.

    The same job on no more GPUs; what the request may allow; the next larger GPU; more GPUs; at
    last what alters its result, as adapters in place of the model.
    """
    max_gpus = max(list_affordable(search.space.counts, search.question, offer))
    remedies = find_changes(
        search.evaluator,
        nearest.workload,
        nearest.layout,
        max_gpus=max_gpus,
        max_estimates=_MAX_ESTIMATES,
    )
    fitting = [remedy for remedy in remedies if remedy.verdict is Verdict.FITS]
    same_job = next((remedy for remedy in fitting if not remedy.effects), None)
    if same_job is not None:
        return _find_on_fewer(search, offer, nearest, same_job)
    # A time is no matter of memory: what else is searched would be held to it with every layout
    # that fits.
    widened = (
        iter(())
        if search.step_times.is_limited
        else _iter_relaxed_remedies(search, offer, nearest, larger_gpus)
    )
    return next(widened, None) or next(iter(fitting), None)


def search_beyond(search: Search, offer: Offer) -> Beyond | None:
    """Search the numbers of GPUs beyond those that a question allows.

    None where a question fixes their number, or a cluster has no more.
    """
    question, limits, counts = search.question, search.question.limits, search.space.counts
    is_fixed = len(counts) == 1 and not question.is_open("data_parallel")
    if offer.pool is not None or is_fixed or offer.device.mig_profile is not None:
        return None
    max_gpus = max(limits.max_gpus, DEFAULT_MAX_GPUS)
    allowed = limits.max_gpus
    if limits.max_nodes is not None:
        allowed = min(allowed, limits.max_nodes * search.space.base_layout.gpus_per_node)
    candidate = None
    if allowed < max_gpus:
        wider = replace(question, limits=replace(limits, max_gpus=max_gpus, max_nodes=None))
        candidate = find_fewest(search.evaluator, wider, offer, more_than=allowed)
    return Beyond(
        allowed_gpus=allowed,
        num_gpus=None if candidate is None else candidate.num_gpus,
        max_gpus=max_gpus,
    )


def _find_on_fewer(search: Search, offer: Offer, nearest: Candidate, remedy: Remedy) -> Remedy:
    """Return a remedy on as few GPUs as it allows.

    What came nearest has more than are enough with the change where more did not help without it.
    """
    changes = {
        field.name: value
        for field in fields(remedy.workload)
        if (value := getattr(remedy.workload, field.name)) != getattr(nearest.workload, field.name)
    }
    if remedy.layout != nearest.layout or not _UNSHARED.isdisjoint(changes):
        return remedy
    question = replace(
        search.question,
        workload=replace(search.question.workload, **changes),
        fixed=search.question.fixed | changes.keys(),
    )
    candidate = find_fewest(search.evaluator, question, offer)
    if candidate is None or candidate.num_gpus >= remedy.num_gpus:
        return remedy
    return build_remedy(remedy.change, (search.evaluator, nearest), (search.evaluator, candidate))


def _iter_relaxed_remedies(
    search: Search, offer: Offer, nearest: Candidate, larger_gpus: OtherGpus
) -> Iterator[Remedy]:
    before, question = (search.evaluator, nearest), search.question
    allowance = QUANTIZING if isinstance(question.workload, ServeWorkload) else OFFLOADING
    if allowance not in question.allow:
        candidate = find_fewest(
            search.evaluator, replace(question, allow=question.allow | {allowance}), offer
        )
        if candidate is not None:
            yield build_remedy(
                {"allow": sorted(question.allow | {allowance})},
                before,
                (search.evaluator, candidate),
            )
    # What a larger GPU costs, and whether a cluster has it, nobody said.
    if offer.pool is None and question.limits.max_cost_per_hour is None:
        for evaluator in larger_gpus(offer.device):
            is_sliced = offer.device.mig_profile is not None  # and a whole GPU reaches others
            candidate = find_fewest(
                evaluator,
                question,
                replace(offer, device=evaluator.device, price_per_gpu_hour=None),
                probes=True,
                space=None if is_sliced else search.space,
            )
            if candidate is not None:
                yield build_remedy(
                    {"gpus": [evaluator.device.name]}, before, (evaluator, candidate)
                )
    limits = replace(
        question.limits, max_gpus=DEFAULT_MAX_GPUS, max_nodes=None, max_cost_per_hour=None
    )
    candidate = (
        None
        if limits == question.limits
        else find_fewest(search.evaluator, replace(question, limits=limits), offer)
    )
    if candidate is not None:
        yield build_remedy(
            _collect_raised_limits(search, offer, candidate), before, (search.evaluator, candidate)
        )


def build_remedy(
    change: Mapping[str, object],
    before: tuple[Evaluator, Candidate],
    after: tuple[Evaluator, Candidate],
) -> Remedy:
    """Build the remedy of a changed question.

    It compares the result with what came nearest without the change.
    """
    (evaluator, candidate), (base_evaluator, base) = after, before
    config, base_config = (candidate.workload, candidate.layout), (base.workload, base.layout)
    return Remedy(
        change=change,
        saves_bytes=max(needed_bytes(base.estimate) - needed_bytes(candidate.estimate), 0),
        verdict=candidate.judgement.verdict,
        cost=compare_costs(
            time_config(evaluator, config, candidate.estimate),
            time_config(base_evaluator, base_config, base.estimate),
        ),
        effects=describe_effects(evaluator.architecture, base_config, config),
        gpu=evaluator.device.name,
        num_gpus=candidate.num_gpus,
        workload=candidate.workload,
        layout=candidate.layout,
    )


def _collect_raised_limits(
    search: Search, offer: Offer, candidate: Candidate
) -> Mapping[str, object]:
    """Return the exceeded limits with the values they would need.

    So many GPUs go beyond them.
    """
    limits, cost = search.question.limits, offer.cost_per_hour(candidate.num_gpus)
    nodes = ceil_div(candidate.num_gpus, search.space.base_layout.gpus_per_node)
    needed = (
        ("max_gpus", limits.max_gpus, candidate.num_gpus),
        ("max_nodes", limits.max_nodes, nodes),
        ("max_cost_per_hour", limits.max_cost_per_hour, cost),
    )
    return {
        name: value
        for name, limit, value in needed
        if limit is not None and value is not None and value > limit
    }
