"""Why no layout fills a number of GPUs: the request's own words, its bounds, or how the model divides."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from math import prod

from service.estimator.values.errors import InvalidInputError
from service.estimator.values.layout import Layout
from service.estimator.values.workload import ServeWorkload, TrainWorkload, Workload
from service.planner.legality.legal import legal
from service.planner.search.layouts import Space
from service.planner.search.splits import SERVED
from service.planner.search.strategies import Way, ways

_DEGREES = ("data_parallel", "tensor_parallel", "pipeline_parallel", "context_parallel")
"""Whose product is the number of GPUs."""
_OPEN = ("tensor_parallel", "pipeline_parallel", "context_parallel")


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfilled:
    """A number of GPUs for which there is no layout to try, and why."""

    num_gpus: int
    reason: str


def unfilled(space: Space, below: int, placeable: frozenset[int] | None = None) -> Iterator[Unfilled]:
    """Yield the numbers below one that no layout fills, each with the bound or the division that leaves it out.

    Of those that are not ``placeable`` no nodes have equally many each; None is that any number is.
    """
    for number in space.numbers:
        if number >= below:
            return
        if not space.slots(number):
            yield Unfilled(num_gpus=number, reason=why_unfilled(space, number))
        elif placeable is not None and number not in placeable:
            yield Unfilled(num_gpus=number, reason=f"no nodes have {_gpus(number)} free, equally many on each")


def why_unfilled(space: Space, number: int) -> str:
    """Return what leaves a number without a layout."""
    return _too_few_replicas(space, number) or _pinned(space, number) or _of_batch(space, number) or _of_model(space, number)


def _too_few_replicas(space: Space, number: int) -> str | None:
    """Return that so many GPUs cannot serve as many sequences as are asked for, however small a replica is."""
    workload, least = space.question.workload, space.question.limits.min_num_sequences
    if not isinstance(workload, ServeWorkload) or least is None:
        return None
    most = number // min(_sizes(space), default=1)
    if most * workload.num_sequences >= least:
        return None
    sequences = most * workload.num_sequences
    replicas = "1 replica" if most == 1 else f"{most} replicas"
    return f"at most {replicas} on {_gpus(number)}: {sequences:,} sequences at once, fewer than {least:,}"


def _pinned(space: Space, number: int) -> str | None:
    """Return which of the degrees that the request fixes do not divide a number."""
    fixed = {name: getattr(space.asked, name) for name in _DEGREES if not _is_open(space, name)}
    together = prod(fixed.values())
    if number % together == 0:
        return None
    said = [f"{name} {value}" for name, value in fixed.items() if value > 1]
    take = f"{' and '.join(said)} {'takes' if len(said) == 1 else 'take'}"
    if number < together:
        return f"{take} {_gpus(together)}"
    return f"{_gpus(number)} are no multiple of {together}, which {take}"


def _of_batch(space: Space, number: int) -> str | None:
    """Return that the batch of the whole job cannot be dealt out to any number of ranks that there may be."""
    workload, batch = space.question.workload, space.question.limits.global_batch_size
    ranks = sorted({number // size for size in _sizes(space) if number % size == 0})
    if batch is None or not isinstance(workload, TrainWorkload) or not ranks:
        return None
    size = 1 if space.question.is_open("micro_batch_size") else workload.micro_batch_size
    steps = 1 if space.question.is_open("gradient_accumulation_steps") else workload.gradient_accumulation_steps
    if any(batch % (size * steps * count) == 0 for count in ranks):
        return None
    dealt = f"{_listed(ranks)} data-parallel ranks" if ranks != [1] else "1 data-parallel rank"
    each = f" of {size * steps} sequences each" if size * steps > 1 else ""
    return f"a global batch of {batch:,} cannot be dealt out to {dealt}{each}, and {_gpus(number)} have no others"


def _of_model(space: Space, number: int) -> str:
    """Return which rules keep one degree after the other from filling a number, or keep its layouts from running."""
    each = number // prod(getattr(space.asked, name) for name in _DEGREES if not _is_open(space, name))
    alone = not _is_open(space, "data_parallel")
    names = [name for name in _OPEN if _is_open(space, name)] if alone and each > 1 else []
    reasons = [reason for name in names if (reason := _forbidden(space, {name: each})) is not None]
    reasons = reasons or [reason for split in _layouts(space, number) if (reason := _forbidden(space, split)) is not None][:1]
    if not reasons:
        return f"no legal layout: no degrees that divide the model, and that the request allows, fill {_gpus(number)}"
    return f"no layout fills {_gpus(number)}: {'; '.join(dict.fromkeys(reasons))}"


def _layouts(space: Space, number: int) -> Iterator[dict[str, int]]:
    """Yield the degrees that would fill a number if they were legal."""
    for size in _sizes(space):
        if number % size == 0:
            split = next(one for one in space.splits.listed if one.num_ranks == size)
            tensor, pipeline, context, expert = split.degrees
            degrees = {"tensor_parallel": tensor, "pipeline_parallel": pipeline, "context_parallel": context}
            yield degrees | {"expert_parallel": expert, "data_parallel": number // size}


def _forbidden(space: Space, words: dict[str, int]) -> str | None:
    """Return the rule that forbids degrees in every way, in the words of the first; None where some way allows them."""
    tensor = words.get("tensor_parallel", 1)
    if tensor > space.splits.island:
        return f"tensor_parallel {tensor} leaves the {space.splits.island} GPUs of an NVLink island"
    reasons = [_illegal(space, way, words) for way in ways(space.question)]
    return next(iter(reasons)) if all(reason is not None for reason in reasons) else None


def _illegal(space: Space, way: Way, words: dict[str, int]) -> str | None:
    workload: Workload = space.question.workload
    if isinstance(workload, TrainWorkload) and way.framework is not None:
        workload = replace(workload, framework=way.framework)
    sharding, stage = space.splits.sharding(way), max(way.stages) if way.framework else space.asked.zero_stage
    try:
        layout: Layout = replace(space.asked, sharding=sharding, zero_stage=stage, **words)  # type: ignore[arg-type]  # degrees
    except InvalidInputError as error:
        return error.message
    found = legal(space.model, workload, layout)
    return None if found is None else found.reason


def _is_open(space: Space, name: str) -> bool:
    """Whether a search varies a degree."""
    question = space.question
    if isinstance(question.workload, ServeWorkload):
        varied = question.counts_replicas if name == "data_parallel" else name in SERVED
        return varied and question.is_open(name)
    return question.is_open(name)


def _sizes(space: Space) -> list[int]:
    """Return how many GPUs one data-parallel rank may have."""
    return sorted({split.num_ranks for split in space.splits.listed})


def _gpus(number: int) -> str:
    return "1 GPU" if number == 1 else f"{number} GPUs"


def _listed(numbers: Iterable[int]) -> str:
    *first, last = map(str, numbers)
    return f"{', '.join(first)} or {last}" if first else last
