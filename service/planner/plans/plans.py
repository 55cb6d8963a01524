"""The best set of GPUs: on each kind that is offered the best plan, why less is not enough, and which kind is best."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice

from service.estimator.values.errors import EstimatorError, InvalidInputError
from service.estimator.values.workload import ServeWorkload
from service.planner.fit.candidates import Candidate, Rejected
from service.planner.fit.evaluator import Subject
from service.planner.fit.hardware import in_format_of
from service.planner.plans.no_layout_reasons import unfilled, why_unfilled
from service.planner.plans.objectives import Objective
from service.planner.plans.offered import Offered, Plan, Plans, Searched, everywhere, hours_of_run, refused
from service.planner.plans.refusals import nothing_to_try, too_dear, too_few, why_none, why_refused
from service.planner.plans.relaxations import Larger, none_larger, smallest_change
from service.planner.search.layout_options import Slot
from service.planner.search.layouts import Space
from service.planner.search.offer import Offer
from service.planner.search.search import Search
from service.planner.search.search_space import Question
from service.planner.search.step_times import excess

MAX_CANDIDATES = 4
MAX_AHEAD = 4
"""Configurations whose numbers are too large and that are replayed all the same, where the fastest is asked: the more, the more
time; with these the plans of all but one in three hundred random questions are the optimum."""
WORTHWHILE = 0.99
"""More GPUs for the cheaper run must save a hundredth of it: the accuracy that the objective has."""


def find_plans(
    subjects: Sequence[tuple[Offer, Subject]], question: Question, objective: Objective, *, larger: Larger = none_larger
) -> Plans:
    """Return the plans; raises EstimatorError when no configuration can run, or has a term, on any of the offers."""
    spaces: dict[object, Space] = {}
    asked: list[tuple[Offered, Search | None]] = []
    refusals: list[tuple[str, EstimatorError]] = []
    for offer, subject in subjects:
        search = None
        try:
            search = _search(subject, question, offer, spaces)
            plan = plan_on(offer, search, objective)
        except EstimatorError as error:
            refusals.append((offer.device.name, error))
            plan = refused(error)
        asked.append((Offered(offer=offer, subject=subject, plan=plan), search))
    if len(refusals) == len(asked):
        raise everywhere(refusals)
    offered = tuple(one for one, _ in asked)
    best = min((one for one in offered if one.plan.num_gpus is not None), key=_score(objective), default=None)
    plans = Plans(offered=offered, best=best)
    shown = plans.nearest if best is None else best
    search = next(search for one, search in asked if one is shown)
    assert search is not None  # noqa: S101 - what is refused is never the nearest unless all is
    plan = helped(shown, search, larger) if best is None else widen(shown.plan, search)
    full = replace(shown, plan=plan)
    return Plans(offered=tuple(full if one is shown else one for one in offered), best=None if best is None else full)


def _search(subject: Subject, question: Question, offer: Offer, spaces: dict[object, Space]) -> Search:
    """Return a search of one offer, in a format that its GPUs have; offers that hang together alike share what divides."""
    question = in_its_format(subject, question)
    node = (offer.gpus_per_node, offer.island_size, offer.host_memory_bytes, offer.nvme_bytes, offer.network_bytes_per_second)
    key = (*node, offer.max_gpus, offer.device.mig_profile is not None, question.workload)
    if key not in spaces:
        spaces[key] = Space(subject.architecture, question, offer)
    return Search(subject, spaces[key])


def in_its_format(subject: Subject, question: Question) -> Question:
    """Return a question whose format nobody asked for in one that the GPU has, where the model can run in it."""
    asked = question.workload
    workload = in_format_of(subject.device, subject.architecture, asked, question.layout, fixed=question.fixed)
    return question if workload is asked else replace(question, workload=workload)


def helped(one: Offered, search: Search, larger: Larger = none_larger) -> Plan:
    """Return a plan that lacks memory with the smallest change that helps."""
    closest = one.plan.closest
    if closest is None or not closest.missing_bytes:
        return one.plan
    return replace(one.plan, smallest_change=smallest_change(search, one.offer, closest.nearest, larger))


def widen(plan: Plan, search: Search) -> Plan:
    """Return a plan with the next best layouts on its number of GPUs, each way and recomputation once."""
    if plan.num_gpus is None:
        return plan
    found = islice(search.best(plan.num_gpus), MAX_CANDIDATES)
    candidates = tuple(sorted(found, key=lambda candidate: candidate.seconds_per_token))
    searched = replace(plan.searched, estimated=search.num_estimated, pruned=_counters(search))
    return replace(plan, candidates=candidates, searched=searched)


def plan_on(offer: Offer, search: Search, objective: Objective) -> Plan:
    """Return the best plan on one kind of GPU, with its best layout."""
    space, question = search.space, search.question
    placeable = _placeable(space.counts, offer)
    counts = _affordable(placeable, question, offer)
    if not counts:
        return _without_counts(search, offer)
    if objective is Objective.FASTEST:
        found, rejected = _fastest(search, counts)
    else:
        found, rejected = _fewest(search, counts)
        if objective is Objective.CHEAPEST and offer.price_per_gpu_hour is not None:
            found = _cheaper_run(search, counts, found)
    searched = Searched(layouts=search.num_considered, estimated=search.num_estimated, pruned=_counters(search))
    if found:
        left = () if objective is Objective.FASTEST else tuple(unfilled(space, found[0].num_gpus, offer.counts))
        return Plan(num_gpus=found[0].num_gpus, candidates=found, rejected=rejected, unfilled=left, searched=searched)
    if not rejected:
        unbatched = question.limits.global_batch_size is not None
        raise search.refusal or (None if unbatched else why_refused(search)) or nothing_to_try(space, offer)
    closest = min(rejected, key=lambda miss: (miss.missing_bytes, _over(miss, question)))
    if closest.missing_bytes:
        nearer = search.rejection(closest.num_gpus, nearest_of_all=True) or closest
        rejected = tuple(nearer if miss is closest else miss for miss in rejected)
        closest = nearer
    tried = [count for count in counts if space.slots(count)]
    reason = why_none(question, offer, tried, closest, placeable=placeable)
    unused = "" if space.slots(counts[-1]) else f"; more are of no use: {why_unfilled(space, counts[-1])}"
    return Plan(num_gpus=None, candidates=(), rejected=rejected, searched=searched, reason=reason + unused, closest=closest)


def _without_counts(search: Search, offer: Offer) -> Plan:
    """Return that nothing is enough, where what is asked takes more GPUs than there are; raises what cannot be asked."""
    space = search.space
    refusal = None if space.is_split else why_refused(search)
    reason = (too_few(space, offer) if space.is_split else None) or too_dear(space, offer)
    if refusal is not None or reason is None:
        raise refusal or nothing_to_try(space, offer)
    searched = Searched(layouts=0, estimated=0, pruned={})
    return Plan(num_gpus=None, candidates=(), rejected=(), searched=searched, reason=reason)


def _fewest(search: Search, counts: Sequence[int]) -> tuple[tuple[Candidate, ...], tuple[Rejected, ...]]:
    """Return the fastest on the fewest GPUs on which something is enough once everything is known."""
    for index, count in enumerate(counts):
        if search.suffices(count):
            found = tuple(islice(search.best(count), 1))
            if found:
                return found, _misses(search, counts[:index])
    misses = _misses(search, counts)
    return (), _told_once(misses) if isinstance(search.question.workload, ServeWorkload) else misses


def _misses(search: Search, counts: Sequence[int]) -> tuple[Rejected, ...]:
    """Return why numbers of GPUs are too few, asked from the largest down: what has no room there has none on fewer."""
    told = [miss for count in reversed(counts) if (miss := search.rejection(count)) is not None]
    return tuple(reversed(told))


def _told_once(misses: Sequence[Rejected]) -> tuple[Rejected, ...]:
    """Return misses without those that say of more replicas what has been said of fewer: that one of them does not fit."""
    first = {miss.missing_bytes: miss for miss in reversed(misses) if miss.missing_bytes}
    return tuple(miss for miss in misses if not miss.missing_bytes or first[miss.missing_bytes] is miss)


def _fastest(search: Search, counts: Sequence[int]) -> tuple[tuple[Candidate, ...], tuple[Rejected, ...]]:
    """Return the fastest of all numbers, from the largest down to those whose arithmetic alone takes longer."""
    found: tuple[Candidate, ...] = ()
    search.ahead.left = MAX_AHEAD
    for count, slots in _from_the_fastest(search, counts):
        if found and search.clock.least_seconds(count) >= found[0].seconds_per_token:
            search.pruned["arithmetic_alone"] += search.space.num_divisions(count)
            continue
        limit = found[0].seconds_per_token if found else None
        better = tuple(islice(search.best(count, faster_than=limit, among=slots), 1))
        if better and (not found or better[0].seconds_per_token < found[0].seconds_per_token):
            found = better
    if found:
        return found, ()
    return (), _misses(search, counts)


def _from_the_fastest(search: Search, counts: Sequence[int]) -> Iterator[tuple[int, tuple[Slot, ...] | None]]:
    """Yield numbers of GPUs in the order in which they are likely the fastest, and which of their layouts to try; None is all.

    Where the batch of the whole job or the time of a step is bounded, fewer ranks may be what keeps the bound.
    """
    limits = search.question.limits
    if isinstance(search.question.workload, ServeWorkload):
        # Replicas serve more at once, none faster: the fewest of equally fast ones come first.
        yield from ((count, None) for count in counts)
    elif limits.global_batch_size is not None or limits.max_step_time_s is not None:
        yield from ((count, None) for count in reversed(counts))
    else:
        for count, num_splits, slots in search.space.widest(tuple(counts)):
            search.pruned["fewer_ranks"] += search.space.num_divisions(count) - num_splits
            yield count, slots


def _cheaper_run(search: Search, counts: Sequence[int], found: tuple[Candidate, ...]) -> tuple[Candidate, ...]:
    """Return what takes the fewest GPU hours for a run, within a hundredth; what was found where nobody told its tokens."""
    if not found or hours_of_run(found[0]) is None:
        return found
    best = found[0]
    for count in counts:
        if count > found[0].num_gpus:
            limit = WORTHWHILE * best.seconds_per_token * best.num_gpus / count
            better = next(search.best(count, faster_than=limit), None)
            best = better if better is not None and better.seconds_per_token < limit else best
    return (best,)


def _score(objective: Objective) -> Callable[[Offered], tuple[float, ...]]:
    def score(one: Offered) -> tuple[float, ...]:
        best = one.plan.candidates[0]
        of_run = one.cost_of_run(best)
        cost = one.cost_per_hour if of_run is None else of_run
        price = float("inf") if cost is None else cost
        match objective:
            case Objective.FEWEST_GPUS:
                return best.num_gpus, best.seconds_per_token
            case Objective.CHEAPEST:
                return price, best.seconds_per_token, best.num_gpus
            case Objective.FASTEST:
                return best.seconds_per_token, best.num_gpus

    return score


def _over(miss: Rejected, question: Question) -> float:
    """Return how many times over the limits of time a miss is."""
    nearest = miss.nearest
    return float("inf") if nearest.throughput is None else excess(question.limits, nearest.workload, nearest.throughput)


def _placeable(counts: Sequence[int], offer: Offer) -> tuple[int, ...]:
    return tuple(count for count in counts if offer.counts is None or count in offer.counts)


def _affordable(counts: Sequence[int], question: Question, offer: Offer) -> tuple[int, ...]:
    most = question.limits.max_cost_per_hour
    if most is None:
        return tuple(counts)
    if offer.price_per_gpu_hour is None:
        message = f"max_cost_per_hour needs a price, and nobody told that of {offer.device.name}; say it in prices"
        raise InvalidInputError(message, field="constraints.max_cost_per_hour")
    return tuple(count for count in counts if count * offer.price_per_gpu_hour <= most)


def _counters(search: Search) -> Mapping[str, int]:
    """Return how many configurations needed no estimate, by reason; reasons that never came up are left out."""
    return {reason: count for reason, count in sorted(search.pruned.items()) if count}
