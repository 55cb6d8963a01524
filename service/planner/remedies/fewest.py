"""The fewest GPUs that suffice, searched for a remedy."""

from collections.abc import Sequence

from service.estimator.values.errors import EstimatorError
from service.planner.fit.candidates import Candidate
from service.planner.fit.evaluator import Evaluator
from service.planner.search.failed_shards import fails_on_fewer_shards
from service.planner.search.layouts import SearchSpace
from service.planner.search.offer import Offer, list_affordable
from service.planner.search.search import Search
from service.planner.search.search_space import Question
from service.planner.search.splits import DEGREES, Split

_RULED_OUT_AFTER = 32
"""Estimates from which on trying each split on many ranks first saves more than it takes."""

_MANY_COUNTS = 8
"""Numbers of GPUs that are too few, from which on listing each layout of more takes the most."""

_PROBED_AFTER = 1
"""Numbers of GPUs that are too few before the largest is looked at: of most kinds that are tried
for a remedy no number is enough."""

_CONTEXT = DEGREES.index("context_parallel")


def find_fewest(
    evaluator: Evaluator,
    question: Question,
    offer: Offer,
    *,
    more_than: int = 0,
    probes: bool = False,
    space: SearchSpace | None = None,
) -> Candidate | None:
    """Return the fastest candidate on the fewest sufficient GPUs.

    They are ``more_than`` a number that is too small. Where ``probes``, two large numbers of which
    neither is enough end the search: what fits beyond them alone is not offered.

    A ``space`` of the same question and topology spares making another one.
    """
    try:
        if space is None:
            space = SearchSpace(evaluator.architecture, question, offer)
        search = Search(evaluator, space, probed_after=_PROBED_AFTER, counts_all=False)
        counts = [n for n in list_affordable(space.counts, question, offer) if n > more_than]
        if probes and not any(map(search.suffices, _select_probes(counts))):
            return None
        is_ruled_out = not fails_on_fewer_shards(space.model, question.workload)
        for index, count in enumerate(counts):
            is_long = search.num_estimated >= _RULED_OUT_AFTER or index >= _MANY_COUNTS
            if is_long and not is_ruled_out:
                is_ruled_out = True
                _rule_out_few(search, counts[index:])
            if (
                search.suffices(count)
                and (candidate := next(search.iter_best(count), None)) is not None
            ):
                return candidate
    except EstimatorError:
        return None
    return None


def _select_probes(counts: Sequence[int]) -> Sequence[int]:
    """Return the largest number, and one of half as many numbers."""
    return tuple(dict.fromkeys((*counts[-1:], *counts[len(counts) // 2 :][:1])))


def _rule_out_few(search: Search, counts: Sequence[int]) -> None:
    """Estimate each split on the most ranks, and by halving on fewer.

    What has no room in many shards rules out the same in fewer, so that numbers of GPUs from the
    least on, which are looked at afterwards as ever, need no estimate of it. Halving stays below
    what is known to have room: more GPUs than that are never asked. Short sequences come first,
    which rule out longer ones in as many shards.
    """
    fewest, bounds = counts[-1] + 1, search.memory_bounds
    for split in sorted(search.space.splits.listed, key=lambda split: -split.degrees[_CONTEXT]):
        filling = [
            number
            for number in counts
            if number < fewest
            and number % split.num_ranks == 0
            and bounds.may_have_room(split, number)
        ]
        while filling and not search.space.list_split_options(split, filling[-1]):
            filling.pop()
        fewest = _find_first_with_room(search, split, filling) or fewest


def _find_first_with_room(search: Search, split: Split, counts: Sequence[int]) -> int | None:
    """Return the least number of GPUs with room, by halving."""
    too_few, enough = 0, len(counts) + 1
    tried = enough - 1
    while too_few < tried < enough:
        has_room = search.has_room(split, counts[tried - 1])
        too_few, enough = (too_few, tried) if has_room else (tried, enough)
        tried = (too_few + enough) // 2
    if too_few:
        _rule_out_fewer(search, split, counts[too_few - 1])
    return counts[enough - 1] if enough <= len(counts) else None


def _rule_out_fewer(search: Search, split: Split, num_gpus: int) -> None:
    """Rule a split out on so many GPUs and fewer.

    It has been tried on as many, and nothing there can have room. What its states and its
    activations lack, and what has failed, lacks no less on fewer ranks, provided that its stages,
    offloads and batches are the same.
    """
    space, bounds = search.space, search.memory_bounds
    if (
        search.question.limits.global_batch_size is None
        and not space.splits.get_rules(split.strategy).ranks_matter
        and space.split_layouts.has_every_choice(split, num_gpus // split.num_ranks)
    ):
        options = bounds.filter_by_states(space.list_split_options(split, num_gpus))
        if all(map(search.possible.stays_too_large, filter(bounds.list_fitting_batches, options))):
            bounds.rule_out(split, num_gpus)
