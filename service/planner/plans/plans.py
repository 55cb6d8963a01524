"""Plans on each offered kind of GPU, and the best one.

Each says why less is not enough.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import islice

from service.estimator.values.errors import EstimatorError
from service.planner.fit.candidates import Rejection
from service.planner.fit.evaluator import Evaluator
from service.planner.fit.hardware import select_format
from service.planner.plans.no_layout_reasons import explain_no_layout, list_no_layout_reasons
from service.planner.plans.objectives import Objective
from service.planner.plans.offered import (
    OfferPlan,
    Plan,
    Plans,
    SearchCounts,
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
from service.planner.plans.relaxations import find_smallest_change, search_beyond
from service.planner.plans.winners import find_winners
from service.planner.remedies.other_gpus import OtherGpus, list_no_other_gpus
from service.planner.search.layouts import SearchSpace
from service.planner.search.offer import Offer, list_affordable, list_placeable
from service.planner.search.search import Search
from service.planner.search.search_space import Question
from service.planner.search.time_limits import compute_excess

MAX_CANDIDATES = 4


def find_plans(
    evaluators: Sequence[tuple[Offer, Evaluator]],
    question: Question,
    objective: Objective,
    *,
    larger_gpus: OtherGpus = list_no_other_gpus,
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
    offer_plan: OfferPlan, search: Search, larger_gpus: OtherGpus = list_no_other_gpus
) -> Plan:
    """Add what would help to a plan without a number.

    It is the number beyond the limits, and where memory lacks the smallest change.
    """
    plan, closest = offer_plan.plan, offer_plan.plan.closest
    if plan.num_gpus is None:
        plan = replace(plan, beyond=search_beyond(search, offer_plan.offer))
    if closest is None or not closest.missing_bytes:
        return plan
    return replace(
        plan,
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
    space = search.space
    counts = list_affordable(space.counts, search.question, offer)
    if not counts:
        return _plan_without_counts(search, offer)
    winners, rejected = find_winners(search, counts, offer, objective)
    searched = SearchCounts(
        layouts=search.num_considered,
        estimated=search.num_estimated,
        pruned=_collect_counters(search),
    )
    if not winners:
        return _plan_without_winners(search, offer, counts, rejected, searched)
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


def _plan_without_winners(
    search: Search,
    offer: Offer,
    counts: Sequence[int],
    rejected: tuple[Rejection, ...],
    searched: SearchCounts,
) -> Plan:
    """Return a plan where nothing suffices, with what comes closest.

    Raises the error of a question that cannot be asked.
    """
    space, question = search.space, search.question
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
    placeable = list_placeable(space.counts, offer)
    model = search.evaluator.architecture
    reason = explain_no_plan(question, offer, tried, closest, placeable=placeable, model=model)
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


def _collect_counters(search: Search) -> Mapping[str, int]:
    """Return the number of configurations pruned without an estimate, by reason.

    Reasons that never came up are left out.
    """
    return {reason: count for reason, count in sorted(search.pruned.items()) if count}
