"""A how-many answer on a terminal.

The number, what runs on so many GPUs, and why fewer are not enough.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table

from service.cli.views.phrases import (
    format_assumptions,
    format_batch,
    format_change,
    format_checkpointing,
    format_counts,
    format_gpus,
)
from service.cli.views.tables import add_title, make_console, make_table, show_bytes
from service.contract.to_answer.phrases import format_gpu, format_shortage

Document = Mapping[str, Any]
_SHOWN_REJECTIONS = 8
_TRAINED = ("sharded by", "stage", "checkpointing", "micro batch")
"""What a server has none of."""
_ROOM = ("per GPU", "left")
_SPLITS = ("tensor_parallel", "pipeline_parallel", "context_parallel", "expert_parallel")
_NUMBERS = ("data parallel", "stage", "micro batch", *_ROOM)


def show_plans(model: str, plans: Sequence[Document]) -> None:
    """Print the answers about one model, one for each kind of GPU."""
    screen = make_console()
    for plan in plans:
        screen.print(
            f"{escape(model)} on {escape(format_gpu(plan['gpu']))}: {_format_number(plan)}",
            soft_wrap=True,
            markup=True,
        )
        for part in _iter_tables(plan):
            screen.print(part)
        for line in _iter_lines(plan):
            screen.print(line, markup=False)
    screen.print(format_assumptions(plans[0]["assumptions"]), markup=False)


def _format_number(plan: Document) -> str:
    num_gpus = plan["num_gpus"]
    if num_gpus is None:
        return f"[bold red]{escape(format_shortage(plan))}[/]"
    return f"[bold green]{num_gpus}[/] {'GPU' if num_gpus == 1 else 'GPUs'}"


def _iter_tables(plan: Document) -> Iterator[RenderableType]:
    if plan["candidates"]:
        yield _build_candidates(plan["candidates"])
    if plan["rejected"]:
        # The largest of the numbers that are too small: the small ones are no surprise.
        nearest = plan["rejected"][-_SHOWN_REJECTIONS:]
        rows = [
            (str(miss["num_gpus"]), show_bytes(miss["missing_bytes"]), miss["reason"])
            for miss in nearest
        ]
        yield add_title(
            "why fewer are not enough",
            make_table(("GPUs", "missing", "because"), rows, right=("GPUs", "missing")),
        )


def _build_candidates(candidates: Sequence[Document]) -> Table:
    splits = [
        name for name in _SPLITS if any(candidate["layout"][name] > 1 for candidate in candidates)
    ]
    heads = [name.removesuffix("_parallel") for name in splits]
    trained = _TRAINED if "micro_batch_size" in candidates[0]["workload"] else ()
    rows = [
        (
            *(str(candidate["layout"][name]) for name in (*splits, "data_parallel")),
            *(_format_training(candidate) if trained else ()),
            show_bytes(candidate["device_bytes"]),
            show_bytes(candidate["headroom_bytes"]),
        )
        for candidate in candidates
    ]
    columns = (*heads, "data parallel", *trained, *_ROOM)
    numbers = [name for name in (*heads, *_NUMBERS) if name in columns]
    return make_table(columns, rows, right=numbers)


def _format_training(candidate: Document) -> tuple[str, ...]:
    workload, layout = candidate["workload"], candidate["layout"]
    return (
        str(layout["sharding"]),
        str(layout["zero_stage"]),
        format_checkpointing(workload),
        format_batch(workload),
    )


def _iter_lines(plan: Document) -> Iterator[str]:
    layers = (candidate["layout"].get("pipeline_layers") for candidate in plan["candidates"])
    for text in dict.fromkeys(format_counts(counts) for counts in layers if counts):
        yield f"layers of its stages: --pipeline-layers {text}"
    if len(plan["rejected"]) > _SHOWN_REJECTIONS:
        yield f"{len(plan['rejected']) - _SHOWN_REJECTIONS} more below these; --json has them all"
    if plan["reason"] is not None:
        yield plan["reason"]
    if (change := plan["smallest_change"]) is not None:
        gpus = format_gpus(change["num_gpus"])
        yield f"what would help: {format_change(change['change'])} on {gpus}"
    yield (
        f"searched {plan['searched']['layouts']} configurations in "
        f"{plan['searched']['elapsed_ms']:.0f} ms"
    )
