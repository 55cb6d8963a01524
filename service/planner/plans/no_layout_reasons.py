"""Reasons why no layout fills a number of GPUs.

The request's own words, its bounds, or how the model divides.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from math import prod

from service.estimator.rules.violations import find_violation
from service.estimator.values.errors import InvalidInputError
from service.estimator.values.layout import Layout
from service.estimator.values.workload import ServeWorkload, TrainWorkload, Workload
from service.planner.search.layouts import SearchSpace
from service.planner.search.splits import SERVING_DEGREES
from service.planner.search.strategies import Strategy, list_strategies

_DEGREES = ("data_parallel", "tensor_parallel", "pipeline_parallel", "context_parallel")
"""Whose product is the number of GPUs."""
_VARIABLE_DEGREES = ("tensor_parallel", "pipeline_parallel", "context_parallel")


@dataclass(frozen=True, slots=True, kw_only=True)
class NoLayoutReason:
    """A number of GPUs without a layout, and the reason."""

    num_gpus: int
    reason: str


def list_no_layout_reasons(
    space: SearchSpace, below: int, placeable: frozenset[int] | None = None
) -> Iterator[NoLayoutReason]:
    """Yield the numbers below one that no layout fills.

    Each has the bound or the division that leaves it out.

    Of those that are not ``placeable`` no nodes have equally many each; None is that any number is.
    """
    for number in space.numbers:
        if number >= below:
            return
        if not space.list_options(number):
            yield NoLayoutReason(num_gpus=number, reason=explain_no_layout(space, number))
        elif placeable is not None and number not in placeable:
            yield NoLayoutReason(
                num_gpus=number,
                reason=f"no nodes have {_format_gpus(number)} free, equally many on each",
            )


def explain_no_layout(space: SearchSpace, number: int) -> str:
    """Explain what leaves a number without a layout."""
    return (
        _explain_too_few_replicas(space, number)
        or _explain_fixed_degrees(space, number)
        or _explain_batch(space, number)
        or _explain_model(space, number)
    )


def _explain_too_few_replicas(space: SearchSpace, number: int) -> str | None:
    """Explain that so many GPUs cannot serve enough sequences.

    They are too few however small a replica is.
    """
    workload, min_sequences = space.question.workload, space.question.limits.min_num_sequences
    if not isinstance(workload, ServeWorkload) or min_sequences is None:
        return None
    max_replicas = number // min(_list_sizes(space), default=1)
    if max_replicas * workload.num_sequences >= min_sequences:
        return None
    sequences = max_replicas * workload.num_sequences
    replicas = "1 replica" if max_replicas == 1 else f"{max_replicas} replicas"
    return (
        f"at most {replicas} on {_format_gpus(number)}: {sequences:,} sequences at once, fewer "
        f"than {min_sequences:,}"
    )


def _explain_fixed_degrees(space: SearchSpace, number: int) -> str | None:
    """Explain which fixed degrees do not divide a number."""
    fixed = {
        name: getattr(space.base_layout, name) for name in _DEGREES if not _is_open(space, name)
    }
    together = prod(fixed.values())
    if number % together == 0:
        return None
    fixed_words = [f"{name} {value}" for name, value in fixed.items() if value > 1]
    take = f"{' and '.join(fixed_words)} {'takes' if len(fixed_words) == 1 else 'take'}"
    if number < together:
        return f"{take} {_format_gpus(together)}"
    return f"{_format_gpus(number)} are no multiple of {together}, which {take}"


def _explain_batch(space: SearchSpace, number: int) -> str | None:
    """Explain that the global batch does not divide over any ranks.

    The ranks are those that there may be.
    """
    workload, batch = space.question.workload, space.question.limits.global_batch_size
    ranks = sorted({number // size for size in _list_sizes(space) if number % size == 0})
    if batch is None or not isinstance(workload, TrainWorkload) or not ranks:
        return None
    size = 1 if space.question.is_open("micro_batch_size") else workload.micro_batch_size
    steps = (
        1
        if space.question.is_open("gradient_accumulation_steps")
        else workload.gradient_accumulation_steps
    )
    if any(batch % (size * steps * count) == 0 for count in ranks):
        return None
    dealt = (
        f"{_join_numbers(ranks)} data-parallel ranks" if ranks != [1] else "1 data-parallel rank"
    )
    suffix = f" of {size * steps} sequences each" if size * steps > 1 else ""
    return (
        f"a global batch of {batch:,} cannot be dealt out to {dealt}{suffix}, and "
        f"{_format_gpus(number)} have no others"
    )


def _explain_model(space: SearchSpace, number: int) -> str:
    """Explain which rules leave a number without a layout.

    They keep one degree after the other from filling it, or keep its layouts from running.
    """
    remaining_degree = number // prod(
        getattr(space.base_layout, name) for name in _DEGREES if not _is_open(space, name)
    )
    is_data_parallel_fixed = not _is_open(space, "data_parallel")
    names = (
        [name for name in _VARIABLE_DEGREES if _is_open(space, name)]
        if is_data_parallel_fixed and remaining_degree > 1
        else []
    )
    reasons = [
        reason
        for name in names
        if (reason := _explain_forbidden(space, {name: remaining_degree})) is not None
    ]
    reasons = (
        reasons
        or [
            reason
            for split in _iter_layouts(space, number)
            if (reason := _explain_forbidden(space, split)) is not None
        ][:1]
    )
    if not reasons:
        return (
            "no legal layout: no degrees that divide the model, and that the request allows, fill "
            f"{_format_gpus(number)}"
        )
    return f"no layout fills {_format_gpus(number)}: {'; '.join(dict.fromkeys(reasons))}"


def _iter_layouts(space: SearchSpace, number: int) -> Iterator[dict[str, int]]:
    """Yield the degrees that would fill a number if they were legal."""
    for size in _list_sizes(space):
        if number % size == 0:
            split = next(
                candidate for candidate in space.splits.listed if candidate.num_ranks == size
            )
            tensor, pipeline, context, expert = split.degrees
            degrees = {
                "tensor_parallel": tensor,
                "pipeline_parallel": pipeline,
                "context_parallel": context,
            }
            yield degrees | {"expert_parallel": expert, "data_parallel": number // size}


def _explain_forbidden(space: SearchSpace, degrees: dict[str, int]) -> str | None:
    """Explain the rule that forbids degrees in every strategy.

    It is that of the first strategy; None where some strategy allows them.
    """
    tensor = degrees.get("tensor_parallel", 1)
    if tensor > space.splits.island_size:
        return (
            f"tensor_parallel {tensor} leaves the {space.splits.island_size} GPUs of an NVLink "
            "island"
        )
    reasons = [
        _explain_illegal(space, strategy, degrees) for strategy in list_strategies(space.question)
    ]
    return next(iter(reasons)) if all(reason is not None for reason in reasons) else None


def _explain_illegal(space: SearchSpace, strategy: Strategy, degrees: dict[str, int]) -> str | None:
    workload: Workload = space.question.workload
    if isinstance(workload, TrainWorkload) and strategy.framework is not None:
        workload = replace(workload, framework=strategy.framework)
    sharding, stage = (
        space.splits.get_sharding(strategy),
        max(strategy.stages) if strategy.framework else space.base_layout.zero_stage,
    )
    base_layout = space.base_layout
    stages = degrees.get("pipeline_parallel", base_layout.pipeline_parallel)
    split = space.splits.get_pipeline_split(strategy, stages)
    placed = {"sharding": sharding, "zero_stage": stage, "pipeline_split": split}
    try:
        layout: Layout = replace(base_layout, **placed, **degrees)  # type: ignore[arg-type]  # fields by name
    except InvalidInputError as error:
        return error.message
    violation = find_violation(space.model, workload, layout)
    return None if violation is None else violation.reason


def _is_open(space: SearchSpace, name: str) -> bool:
    """Return whether a search varies a degree."""
    question = space.question
    if isinstance(question.workload, ServeWorkload):
        varied = question.counts_replicas if name == "data_parallel" else name in SERVING_DEGREES
        return varied and question.is_open(name)
    return question.is_open(name)


def _list_sizes(space: SearchSpace) -> list[int]:
    """Return the possible GPUs of one data-parallel rank."""
    return sorted({split.num_ranks for split in space.splits.listed})


def _format_gpus(number: int) -> str:
    return "1 GPU" if number == 1 else f"{number} GPUs"


def _join_numbers(numbers: Iterable[int]) -> str:
    *first, last = map(str, numbers)
    return f"{', '.join(first)} or {last}" if first else last
