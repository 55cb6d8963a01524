"""A how-many answer on a terminal: the number, what runs on so many GPUs, and why fewer are not enough."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import RenderableType

from service.cli.views.phrases import word_of_checkpointing, words_of_assumptions, words_of_change
from service.cli.views.tables import console, show_bytes, table, titled

Document = Mapping[str, Any]
_SHOWN_REJECTIONS = 8
_COLUMNS = ("data parallel", "sharded by", "stage", "checkpointing", "micro batch", "per GPU", "left")
_SPLITS = ("tensor_parallel", "pipeline_parallel", "context_parallel", "expert_parallel")
_NUMBERS = ("data parallel", "stage", "micro batch", "per GPU", "left")


def show_plans(model: str, plans: Sequence[Document]) -> None:
    """Print the answers about one model, one for each kind of GPU."""
    screen = console()
    for plan in plans:
        screen.print(f"{model} on {_gpu(plan['gpu'])}: {_number(plan['num_gpus'])}", soft_wrap=True)
        for part in _tables(plan):
            screen.print(part)
        for line in _lines(plan):
            screen.print(line, markup=False)
    screen.print(words_of_assumptions(plans[0]["assumptions"]), markup=False)


def _gpu(words: str | Document) -> str:
    return words if isinstance(words, str) else f"a GPU of {show_bytes(words['memory_bytes'])}"


def _number(num_gpus: int | None) -> str:
    if num_gpus is None:
        return "[bold red]no number of GPUs is enough[/]"
    return f"[bold green]{num_gpus}[/] {'GPU' if num_gpus == 1 else 'GPUs'}"


def _tables(plan: Document) -> Iterator[RenderableType]:
    if plan["candidates"]:
        splits = [name for name in _SPLITS if any(candidate["layout"][name] > 1 for candidate in plan["candidates"])]
        heads = [name.removesuffix("_parallel") for name in splits]
        rows = [_candidate(candidate, splits=splits) for candidate in plan["candidates"]]
        yield table((*heads, *_COLUMNS), rows, right=(*heads, *_NUMBERS))
    if plan["rejected"]:
        # The largest of the numbers that are too small: the small ones are no surprise.
        nearest = plan["rejected"][-_SHOWN_REJECTIONS:]
        rows = [(str(miss["num_gpus"]), show_bytes(miss["missing_bytes"]), miss["reason"]) for miss in nearest]
        yield titled("why fewer are not enough", table(("GPUs", "missing", "because"), rows, right=("GPUs", "missing")))


def _candidate(candidate: Document, *, splits: Sequence[str]) -> tuple[str, ...]:
    said = {**candidate["workload"], **candidate["layout"]}
    return (
        *(str(said[name]) for name in splits),
        str(said["data_parallel"]),
        str(said["sharding"]),
        str(said["zero_stage"]),
        word_of_checkpointing(said),
        str(said.get("micro_batch_size", "-")),
        show_bytes(candidate["device_bytes"]),
        show_bytes(candidate["headroom_bytes"]),
    )


def _lines(plan: Document) -> Iterator[str]:
    if len(plan["rejected"]) > _SHOWN_REJECTIONS:
        yield f"{len(plan['rejected']) - _SHOWN_REJECTIONS} more below these; --json has them all"
    if plan["reason"] is not None:
        yield plan["reason"]
    if (change := plan["smallest_change"]) is not None:
        yield f"what would help: {words_of_change(change['change'])} on {change['num_gpus']} GPUs"
    yield f"searched {plan['searched']['layouts']} configurations in {plan['searched']['elapsed_ms']:.0f} ms"
