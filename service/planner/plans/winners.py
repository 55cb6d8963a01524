"""Winners among an offer's configurations, by objective."""

from collections.abc import Iterator, Sequence
from itertools import islice

from service.estimator.values.workload import ServeWorkload
from service.planner.fit.candidates import Candidate, Rejection
from service.planner.plans.objectives import Objective
from service.planner.plans.offered import get_run_hours
from service.planner.search.layout_options import LayoutOption
from service.planner.search.offer import Offer
from service.planner.search.search import Search

WORTHWHILE = 0.99
"""Share of a run's cost that more GPUs must undercut.

They must save a hundredth: the accuracy that the objective has.
"""


def find_winners(
    search: Search, counts: Sequence[int], offer: Offer, objective: Objective
) -> tuple[tuple[Candidate, ...], tuple[Rejection, ...]]:
    """Return an offer's best configuration, and why fewer GPUs are rejected."""
    if objective is Objective.FASTEST:
        return _find_fastest(search, counts)
    winners, rejected = _find_fewest(search, counts)
    if objective is Objective.CHEAPEST and offer.price_per_gpu_hour is not None:
        winners = _find_cheaper_run(search, counts, winners)
    return winners, rejected


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
            better = next(search.iter_best(count, faster_than=limit, more_follow=True), None)
            best = better if better is not None and better.seconds_per_token < limit else best
    return (best,)
