"""Plans on each offered kind of GPU, and the best one.

Each says why less is not enough.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice

from service.estimator.values.errors import EstimatorError, InvalidInputError
from service.estimator.values.workload import ServeWorkload
from service.planner.fit.candidates import Candidate, Rejection
from service.planner.fit.evaluator import Evaluator
from service.planner.fit.hardware import select_format
from service.planner.plans.no_layout_reasons import explain_no_layout, list_no_layout_reasons
from service.planner.plans.objectives import Objective
from service.planner.plans.offered import (
    OfferPlan,
    Plan,
    Plans,
    SearchCounts,
    get_run_hours,
    make_refused_plan,
    merge_refusals,
)
from service.planner.plans.refusals import (
    explain_no_plan,
    explain_too_expensive,
    explain_too_few,
    find_refusal,
    make_contradiction_error,
)
from service.planner.plans.relaxations import LargerGpus, find_smallest_change, list_no_larger_gpus
from service.planner.search.layout_options import LayoutOption
from service.planner.search.layouts import SearchSpace
from service.planner.search.offer import Offer
from service.planner.search.search import Search
from service.planner.search.search_space import Question
from service.planner.search.step_times import compute_excess

MAX_CANDIDATES = 4
MAX_REPLAYED_CANDIDATES = 4
"""Configurations whose numbers are too large and that are replayed all the same, where the fastest
is asked.

The more, the more time; with these the plans of all but one in three hundred random questions are
the optimum.
"""
WORTHWHILE = 0.99
"""Share of a run's cost that more GPUs must undercut.

They must save a hundredth: the accuracy that the objective has.
"""


def find_plans(
    evaluators: Sequence[tuple[Offer, Evaluator]],
    question: Question,
    objective: Objective,
    *,
    larger_gpus: LargerGpus = list_no_larger_gpus,
) -> Plans:
    """Find the plan on each offer and the best of them.

    Raises EstimatorError when no configuration can run, or has a term, on any of the offers.
    """
    spaces: dict[object, SearchSpace] = {}
    searches: list[tuple[OfferPlan, Search | None]] = []
    refusals: list[tuple[str, EstimatorError]] = []
    for offer, evaluator in evaluators:
        search = None
        try:
            search = _make_search(evaluator, question, offer, spaces)
            plan = plan_offer(offer, search, objective)
        except EstimatorError as error:
            refusals.append((offer.device.name, error))
            plan = make_refused_plan(error)
        searches.append((OfferPlan(offer=offer, evaluator=evaluator, plan=plan), search))
    if len(refusals) == len(searches):
        raise merge_refusals(refusals)
    offer_plans = tuple(offer_plan for offer_plan, _ in searches)
    best = min(
        (offer_plan for offer_plan in offer_plans if offer_plan.plan.num_gpus is not None),
        key=_make_score(objective),
        default=None,
    )
    plans = Plans(offer_plans=offer_plans, best=best)
    chosen = plans.nearest if best is None else best
    search = next(search for offer_plan, search in searches if offer_plan is chosen)
    assert search is not None  # noqa: S101 - what is refused is never the nearest unless all is
    plan = (
        add_smallest_change(chosen, search, larger_gpus)
        if best is None
        else add_candidates(chosen.plan, search)
    )
    completed = replace(chosen, plan=plan)
    return Plans(
        offer_plans=tuple(
            completed if offer_plan is chosen else offer_plan for offer_plan in offer_plans
        ),
        best=None if best is None else completed,
    )


def _make_search(
    evaluator: Evaluator, question: Question, offer: Offer, spaces: dict[object, SearchSpace]
) -> Search:
    """Make the search of one offer, in its number format.

    Offers with the same topology share what divides.
    """
    question = select_question_format(evaluator, question)
    node = (
        offer.gpus_per_node,
        offer.island_size,
        offer.host_memory_bytes,
        offer.nvme_bytes,
        offer.network_bytes_per_second,
    )
    key = (*node, offer.max_gpus, offer.device.mig_profile is not None, question.workload)
    if key not in spaces:
        spaces[key] = SearchSpace(evaluator.architecture, question, offer)
    return Search(evaluator, spaces[key])


def select_question_format(evaluator: Evaluator, question: Question) -> Question:
    """Return a question in a number format that the GPU has.

    Only a format that the request does not fix is changed, and only where the model can run in it.
    """
    original = question.workload
    workload = select_format(
        evaluator.device, evaluator.architecture, original, question.layout, fixed=question.fixed
    )
    return question if workload is original else replace(question, workload=workload)


def add_smallest_change(
    offer_plan: OfferPlan, search: Search, larger_gpus: LargerGpus = list_no_larger_gpus
) -> Plan:
    """Add the smallest helpful change to a plan that lacks memory."""
    closest = offer_plan.plan.closest
    if closest is None or not closest.missing_bytes:
        return offer_plan.plan
    return replace(
        offer_plan.plan,
        smallest_change=find_smallest_change(
            search, offer_plan.offer, closest.nearest, larger_gpus
        ),
    )


def add_candidates(plan: Plan, search: Search) -> Plan:
    """Add the next best layouts on the plan's number of GPUs.

    Each strategy and recomputation comes once.
    """
    if plan.num_gpus is None:
        return plan
    best = islice(search.iter_best(plan.num_gpus), MAX_CANDIDATES)
    candidates = tuple(sorted(best, key=lambda candidate: candidate.seconds_per_token))
    searched = replace(
        plan.searched, estimated=search.num_estimated, pruned=_collect_counters(search)
    )
    return replace(plan, candidates=candidates, searched=searched)


def plan_offer(offer: Offer, search: Search, objective: Objective) -> Plan:
    """Return the best plan on one kind of GPU.

    It has its best layout.
    """
    space, question = search.space, search.question
    placeable = _list_placeable(space.counts, offer)
    counts = _list_affordable(placeable, question, offer)
    if not counts:
        return _plan_without_counts(search, offer)
    if objective is Objective.FASTEST:
        winners, rejected = _find_fastest(search, counts)
    else:
        winners, rejected = _find_fewest(search, counts)
        if objective is Objective.CHEAPEST and offer.price_per_gpu_hour is not None:
            winners = _find_cheaper_run(search, counts, winners)
    searched = SearchCounts(
        layouts=search.num_considered,
        estimated=search.num_estimated,
        pruned=_collect_counters(search),
    )
    if winners:
        no_layouts = (
            ()
            if objective is Objective.FASTEST
            else tuple(list_no_layout_reasons(space, winners[0].num_gpus, offer.counts))
        )
        return Plan(
            num_gpus=winners[0].num_gpus,
            candidates=winners,
            rejected=rejected,
            no_layout_reasons=no_layouts,
            searched=searched,
        )
    if not rejected:
        unbatched = question.limits.global_batch_size is not None
        raise (
            search.refusal
            or (None if unbatched else find_refusal(search))
            or make_contradiction_error(space, offer)
        )
    closest = min(rejected, key=lambda miss: (miss.missing_bytes, _compute_excess(miss, question)))
    if closest.missing_bytes:
        nearer = search.explain_rejection(closest.num_gpus, nearest_of_all=True) or closest
        rejected = tuple(nearer if miss is closest else miss for miss in rejected)
        closest = nearer
    tried = [count for count in counts if space.list_options(count)]
    reason = explain_no_plan(question, offer, tried, closest, placeable=placeable)
    unused = (
        ""
        if space.list_options(counts[-1])
        else f"; more are of no use: {explain_no_layout(space, counts[-1])}"
    )
    return Plan(
        num_gpus=None,
        candidates=(),
        rejected=rejected,
        searched=searched,
        reason=reason + unused,
        closest=closest,
    )


def _plan_without_counts(search: Search, offer: Offer) -> Plan:
    """Return a plan where the request needs more GPUs than there are.

    Raises the error of a question that cannot be asked.
    """
    space = search.space
    refusal = None if space.is_split else find_refusal(search)
    reason = (explain_too_few(space, offer) if space.is_split else None) or explain_too_expensive(
        space, offer
    )
    if refusal is not None or reason is None:
        raise refusal or make_contradiction_error(space, offer)
    searched = SearchCounts(layouts=0, estimated=0, pruned={})
    return Plan(num_gpus=None, candidates=(), rejected=(), searched=searched, reason=reason)


def _find_fewest(
    search: Search, counts: Sequence[int]
) -> tuple[tuple[Candidate, ...], tuple[Rejection, ...]]:
    """Return the fastest on the fewest sufficient GPUs.

    Sufficient is judged once everything is known.
    """
    for index, count in enumerate(counts):
        if search.suffices(count):
            winners = tuple(islice(search.iter_best(count), 1))
            if winners:
                return winners, _list_rejections(search, counts[:index])
    misses = _list_rejections(search, counts)
    return (), _drop_repeated(misses) if isinstance(
        search.question.workload, ServeWorkload
    ) else misses


def _list_rejections(search: Search, counts: Sequence[int]) -> tuple[Rejection, ...]:
    """Return why numbers of GPUs are too few.

    They are asked from the largest down: what has no room there has none on fewer.
    """
    rejections = [
        miss for count in reversed(counts) if (miss := search.explain_rejection(count)) is not None
    ]
    return tuple(reversed(rejections))


def _drop_repeated(misses: Sequence[Rejection]) -> tuple[Rejection, ...]:
    """Drop rejections that only repeat a smaller one.

    They say of more replicas what has been said of fewer: that one of them does not fit.
    """
    first = {miss.missing_bytes: miss for miss in reversed(misses) if miss.missing_bytes}
    return tuple(
        miss for miss in misses if not miss.missing_bytes or first[miss.missing_bytes] is miss
    )


def _find_fastest(
    search: Search, counts: Sequence[int]
) -> tuple[tuple[Candidate, ...], tuple[Rejection, ...]]:
    """Return the fastest configuration of all GPU counts.

    Counts go from the largest down to those whose arithmetic alone takes longer.
    """
    winners: tuple[Candidate, ...] = ()
    search.replay_candidates.remaining = MAX_REPLAYED_CANDIDATES
    for count, options in _iter_fastest_first(search, counts):
        if winners and search.step_times.compute_min_seconds(count) >= winners[0].seconds_per_token:
            search.pruned["arithmetic_alone"] += search.space.count_divisions(count)
            continue
        limit = winners[0].seconds_per_token if winners else None
        better = tuple(islice(search.iter_best(count, faster_than=limit, among=options), 1))
        if better and (not winners or better[0].seconds_per_token < winners[0].seconds_per_token):
            winners = better
    if winners:
        return winners, ()
    return (), _list_rejections(search, counts)


def _iter_fastest_first(
    search: Search, counts: Sequence[int]
) -> Iterator[tuple[int, tuple[LayoutOption, ...] | None]]:
    """Yield GPU counts, likely fastest first, with the layouts to try.

    None is all of them.
    """
    limits = search.question.limits
    if isinstance(search.question.workload, ServeWorkload):
        # Replicas serve more at once, none faster: the fewest of equally fast ones come first.
        yield from ((count, None) for count in counts)
    elif limits.global_batch_size is not None or limits.max_step_time_s is not None:
        yield from ((count, None) for count in reversed(counts))
    else:
        for count, num_splits, options in search.space.list_widest(tuple(counts)):
            search.pruned["fewer_ranks"] += search.space.count_divisions(count) - num_splits
            yield count, options


def _find_cheaper_run(
    search: Search, counts: Sequence[int], winners: tuple[Candidate, ...]
) -> tuple[Candidate, ...]:
    """Return the candidate with the fewest GPU hours for a run.

    The fewest within a hundredth; ``winners`` stay where the run's tokens are unknown.
    """
    if not winners or get_run_hours(winners[0]) is None:
        return winners
    best = winners[0]
    for count in counts:
        if count > winners[0].num_gpus:
            limit = WORTHWHILE * best.seconds_per_token * best.num_gpus / count
            better = next(search.iter_best(count, faster_than=limit), None)
            best = better if better is not None and better.seconds_per_token < limit else best
    return (best,)


def _make_score(objective: Objective) -> Callable[[OfferPlan], tuple[float, ...]]:
    def score(offer_plan: OfferPlan) -> tuple[float, ...]:
        best = offer_plan.plan.candidates[0]
        run_cost = offer_plan.compute_run_cost(best)
        cost = offer_plan.cost_per_hour if run_cost is None else run_cost
        price = float("inf") if cost is None else cost
        match objective:
            case Objective.FEWEST_GPUS:
                return best.num_gpus, best.seconds_per_token
            case Objective.CHEAPEST:
                return price, best.seconds_per_token, best.num_gpus
            case Objective.FASTEST:
                return best.seconds_per_token, best.num_gpus

    return score


def _compute_excess(miss: Rejection, question: Question) -> float:
    """Return a rejection's worst ratio to the time limits."""
    nearest = miss.nearest
    return (
        float("inf")
        if nearest.throughput is None
        else compute_excess(question.limits, nearest.workload, nearest.throughput)
    )


def _list_placeable(counts: Sequence[int], offer: Offer) -> tuple[int, ...]:
    return tuple(count for count in counts if offer.counts is None or count in offer.counts)


def _list_affordable(counts: Sequence[int], question: Question, offer: Offer) -> tuple[int, ...]:
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


def _collect_counters(search: Search) -> Mapping[str, int]:
    """Return the number of configurations pruned without an estimate, by reason.

    Reasons that never came up are left out.
    """
    return {reason: count for reason, count in sorted(search.pruned.items()) if count}
