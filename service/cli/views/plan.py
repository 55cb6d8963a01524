"""A plan on a terminal: the best GPUs, layouts on them, the other kinds, and why fewer are not enough."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import RenderableType
from rich.table import Table

from service.cli.views.phrases import word_of_checkpointing, words_of_assumptions, words_of_change, words_of_degrees
from service.cli.views.tables import console, show_bytes, table, titled

Document = Mapping[str, Any]
_SHOWN_REJECTIONS, _SHOWN_NODES = 8, 16
_LAYOUTS = ("run by", "sharded by", "data x tensor x …", "recomputed", "batch", "per GPU", "left", "step", "tokens/s", "USD/h")
_OF_RUN = "USD a run"
_RIGHT = ("batch", "per GPU", "left", "step", "tokens/s", "USD/h", _OF_RUN)


def show_plan(model: str, plan: Document) -> None:
    """Print the answer about one model."""
    screen = console()
    screen.print(f"{model}: {_headline(plan)}", soft_wrap=True)
    for part in _tables(plan):
        screen.print(part)
    for line in _lines(plan):
        screen.print(line, markup=False)
    screen.print(words_of_assumptions(plan["assumptions"]), markup=False)


def _headline(plan: Document) -> str:
    if plan["num_gpus"] is None:
        return "[bold red]nothing that was offered is enough[/]"
    return f"[bold green]{plan['num_gpus']}[/] x {_gpu(plan['gpu'])} ({plan['objective'].replace('_', ' ')})"


def _gpu(words: str | Document) -> str:
    return words if isinstance(words, str) else f"a GPU of {show_bytes(words['memory_bytes'])}"


def _tables(plan: Document) -> Iterator[RenderableType]:
    if plan["candidates"]:
        yield _layouts(plan["candidates"])
    if len(plan["alternatives"]) > 1:
        kinds = [_alternative(one) for one in plan["alternatives"]]
        columns = ("GPU", "number", "per GPU", "step", "USD/h", _OF_RUN)
        yield titled("on each kind of GPU", _priced(columns, kinds, plan["alternatives"], right=columns[1:]))
    if plan["pareto"]:
        rows = [_point(point) for point in plan["pareto"]]
        heads = ("GPU", "number", "per GPU", "tokens/s", "USD/h")
        yield titled("beaten by no other in memory, time and cost at once", table(heads, rows, right=heads[1:]))
    if plan["rejected"]:
        # The largest of the numbers that are too small: the small ones are no surprise.
        nearest = plan["rejected"][-_SHOWN_REJECTIONS:]
        rows = [
            (_gpu(miss["gpu"]), str(miss["num_gpus"]), show_bytes(miss["missing_bytes"]), miss["reason"]) for miss in nearest
        ]
        yield titled(
            "why fewer are not enough", table(("GPU", "number", "missing", "because"), rows, right=("number", "missing"))
        )


def _layouts(candidates: Sequence[Document]) -> RenderableType:
    rows = [_candidate(candidate) for candidate in candidates]
    return _priced((*_LAYOUTS, _OF_RUN), rows, candidates, right=_RIGHT)


def _priced(heads: Sequence[str], rows: Sequence[Sequence[str]], priced: Sequence[Document], *, right: Sequence[str]) -> Table:
    """Return a table whose last column says what a run costs, without it where nobody told the tokens of the run."""
    costs = [one["cost_of_run"] for one in priced]
    if not any(cost is not None for cost in costs):
        return table(heads[:-1], rows, right=[name for name in right if name != _OF_RUN])
    paid = [(*row, _amount(cost, digits=2)) for row, cost in zip(rows, costs, strict=True)]
    return table(heads, paid, right=right)


def _candidate(candidate: Document) -> tuple[str, ...]:
    workload, layout, fit = candidate["workload"], candidate["layout"], candidate["fit"]
    batch = workload.get("micro_batch_size", workload.get("num_sequences"))
    steps = workload.get("gradient_accumulation_steps", 1)
    return (
        str(workload.get("framework", workload.get("engine"))),
        f"{layout['sharding']} {layout['zero_stage']}",
        words_of_degrees(layout),
        word_of_checkpointing(workload),
        f"{batch} x {steps}" if steps > 1 else str(batch),
        show_bytes(fit["per_gpu"]["device_bytes"]),
        show_bytes(fit["headroom_bytes"]),
        _seconds(candidate["step_time_s"]),
        _amount(candidate["tokens_per_second"]),
        _amount(candidate["cost_per_hour"], digits=2),
    )


def _alternative(one: Document) -> tuple[str, ...]:
    number = "none" if one["num_gpus"] is None else str(one["num_gpus"])
    memory = "-" if one["device_bytes"] is None else show_bytes(one["device_bytes"])
    return _gpu(one["gpu"]), number, memory, _seconds(one["step_time_s"]), _amount(one["cost_per_hour"], digits=2)


def _point(point: Document) -> tuple[str, ...]:
    return (
        _gpu(point["gpu"]),
        str(point["num_gpus"]),
        show_bytes(point["device_bytes"]),
        _amount(point["tokens_per_second"]),
        _amount(point["cost_per_hour"], digits=2),
    )


def _lines(plan: Document) -> Iterator[str]:
    if len(plan["rejected"]) > _SHOWN_REJECTIONS:
        yield f"{len(plan['rejected']) - _SHOWN_REJECTIONS} more below these; --json has them all"
    if plan["reason"] is not None:
        yield plan["reason"]
    if (change := plan["smallest_change"]) is not None:
        yield f"what would help: {words_of_change(change['change'])} on {change['num_gpus']} GPUs"
    if plan["candidates"] and (placement := plan["candidates"][0]["placement"]) is not None:
        yield from _placed(placement)
    if plan["candidates"] and (source := plan["candidates"][0]["price_source"]) is not None:
        yield f"price: {source}"
    searched = plan["searched"]
    yield f"considered {searched['layouts']} layouts, estimated {searched['estimated']}, in {searched['elapsed_ms']:.0f} ms"


def _placed(placement: Document) -> Iterator[str]:
    """Say on which nodes the first plan runs today, and what else is known of that."""
    if placement["status"] != "placed":
        return
    nodes: dict[str, int] = {}
    for seat in placement["nodes"]:
        name = f"{seat['pool']}/{seat['node']}"
        nodes[name] = nodes.get(name, 0) + seat["num_gpus"]
    shown = [f"{name}={num_gpus}" for name, num_gpus in nodes.items()]
    more = f" and {len(shown) - _SHOWN_NODES} more; --json has them all" if len(shown) > _SHOWN_NODES else ""
    yield f"runs today on {', '.join(shown[:_SHOWN_NODES])}{more}"
    yield from placement["notes"]


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g} s"


def _amount(value: float | None, *, digits: int = 0) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"
