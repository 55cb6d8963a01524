"""A plan on a terminal.

The best GPUs, layouts on them, the other kinds, and why fewer are not enough.
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
    format_degrees,
    format_gpus,
)
from service.cli.views.tables import add_title, make_console, make_table, show_bytes
from service.contract.to_answer.phrases import format_gpu, format_shortage

Document = Mapping[str, Any]
_SHOWN_REJECTIONS, _SHOWN_NODES = 8, 16
_LAYOUTS = (
    "run by",
    "sharded by",
    "data x tensor x …",
    "recomputed",
    "batch",
    "per GPU",
    "left",
    "step",
    "tokens/s",
    "USD/h",
)
_FRONT = ("GPU", "number", "layout", "batch", "per GPU", "step", "tokens/s", "USD/h")
_RIGHT_OF_FRONT = ("number", "batch", "per GPU", "step", "tokens/s", "USD/h")
_OF_RUN = "USD a run"
_RIGHT = ("batch", "per GPU", "left", "step", "tokens/s", "USD/h", _OF_RUN)


def show_plan(model: str, plan: Document) -> None:
    """Print the answer about one model."""
    screen = make_console()
    screen.print(f"{escape(model)}: {_format_headline(plan)}", soft_wrap=True, markup=True)
    for part in _iter_tables(plan):
        screen.print(part)
    for line in _iter_lines(plan):
        screen.print(line, markup=False)
    screen.print(format_assumptions(plan["assumptions"]), markup=False)


def _format_headline(plan: Document) -> str:
    if plan["num_gpus"] is None:
        kind = "" if plan["closest"] is None else f" ({format_gpu(plan['closest']['gpu'])})"
        shortage = escape(f"{format_shortage(plan)}{kind}")
        return f"[bold red]nothing that was offered is enough: {shortage}[/]"
    return (
        f"[bold green]{plan['num_gpus']}[/] x {escape(format_gpu(plan['gpu']))} "
        f"({plan['objective'].replace('_', ' ')})"
    )


def _iter_tables(plan: Document) -> Iterator[RenderableType]:
    if plan["candidates"]:
        yield _build_layout_table(plan["candidates"])
    if len(plan["alternatives"]) > 1:
        kinds = [_format_alternative(alternative) for alternative in plan["alternatives"]]
        columns = ("GPU", "number", "per GPU", "step", "USD/h", _OF_RUN)
        yield add_title(
            "on each kind of GPU",
            _build_priced_table(columns, kinds, plan["alternatives"], right=columns[1:]),
        )
    if plan["pareto"]:
        rows = [_format_point(point) for point in plan["pareto"]]
        yield add_title(
            "beaten by no other in memory, time and cost at once",
            make_table(_FRONT, rows, right=_RIGHT_OF_FRONT),
        )
    if plan["rejected"]:
        # The largest of the numbers that are too small: the small ones are no surprise.
        nearest = plan["rejected"][-_SHOWN_REJECTIONS:]
        rows = [
            (
                format_gpu(miss["gpu"]),
                str(miss["num_gpus"]),
                show_bytes(miss["missing_bytes"]),
                miss["reason"],
            )
            for miss in nearest
        ]
        yield add_title(
            "why fewer are not enough",
            make_table(("GPU", "number", "missing", "because"), rows, right=("number", "missing")),
        )


def _build_layout_table(candidates: Sequence[Document]) -> RenderableType:
    rows = [_format_candidate(candidate) for candidate in candidates]
    return _build_priced_table((*_LAYOUTS, _OF_RUN), rows, candidates, right=_RIGHT)


def _build_priced_table(
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    entries: Sequence[Document],
    *,
    right: Sequence[str],
) -> Table:
    """Return a table with the cost of a run.

    That is the last column. The table is without that column where the tokens of the run are
    unknown.
    """
    costs = [entry["cost_of_run"] for entry in entries]
    if not any(cost is not None for cost in costs):
        return make_table(heads[:-1], rows, right=[name for name in right if name != _OF_RUN])
    priced_rows = [
        (*row, _format_amount(cost, digits=2)) for row, cost in zip(rows, costs, strict=True)
    ]
    return make_table(heads, priced_rows, right=right)


def _format_config(entry: Document) -> tuple[str, ...]:
    workload, layout = entry["workload"], entry["layout"]
    return (
        str(workload.get("framework", workload.get("engine"))),
        f"{layout['sharding']} {layout['zero_stage']}",
        format_degrees(layout),
        format_checkpointing(workload),
        format_batch(workload),
    )


def _format_candidate(candidate: Document) -> tuple[str, ...]:
    fit = candidate["fit"]
    return (
        *_format_config(candidate),
        show_bytes(fit["per_gpu"]["device_bytes"]),
        show_bytes(fit["headroom_bytes"]),
        _format_seconds(candidate["step_time_s"]),
        _format_amount(candidate["tokens_per_second"]),
        _format_amount(candidate["cost_per_hour"], digits=2),
    )


def _format_alternative(alternative: Document) -> tuple[str, ...]:
    number = "none" if alternative["num_gpus"] is None else str(alternative["num_gpus"])
    memory = "-" if alternative["device_bytes"] is None else show_bytes(alternative["device_bytes"])
    return (
        format_gpu(alternative["gpu"]),
        number,
        memory,
        _format_seconds(alternative["step_time_s"]),
        _format_amount(alternative["cost_per_hour"], digits=2),
    )


def _format_point(point: Document) -> tuple[str, ...]:
    return (
        format_gpu(point["gpu"]),
        str(point["num_gpus"]),
        *_format_point_config(point),
        show_bytes(point["device_bytes"]),
        _format_seconds(point["step_time_s"]),
        _format_amount(point["tokens_per_second"]),
        _format_amount(point["cost_per_hour"], digits=2),
    )


def _format_point_config(point: Document) -> tuple[str, str]:
    """Return a configuration in one cell, and its batch."""
    run_by, sharded, degrees, recomputed, batch = _format_config(point)
    cells = (run_by, degrees) if recomputed == "-" else (run_by, sharded, degrees, recomputed)
    return ", ".join(cells), batch


def _iter_lines(plan: Document) -> Iterator[str]:
    if len(plan["rejected"]) > _SHOWN_REJECTIONS:
        yield f"{len(plan['rejected']) - _SHOWN_REJECTIONS} more below these; --json has them all"
    if plan["reason"] is not None:
        yield plan["reason"]
    if len(plan["alternatives"]) > 1:
        yield from _iter_refusals(plan["alternatives"])
    if (change := plan["smallest_change"]) is not None:
        gpus = format_gpus(change["num_gpus"])
        yield f"what would help: {format_change(change['change'])} on {gpus}"
    if plan["candidates"] and (placement := plan["candidates"][0]["placement"]) is not None:
        yield from _iter_placement_lines(placement)
    if plan["candidates"] and (source := plan["candidates"][0]["price_source"]) is not None:
        yield f"price: {source}"
    yield from (f"warning: {warning}" for warning in plan.get("warnings", ()))
    searched = plan["searched"]
    yield (
        f"considered {searched['layouts']} layouts, estimated {searched['estimated']}, in "
        f"{searched['elapsed_ms']:.0f} ms"
    )


def _iter_refusals(alternatives: Sequence[Document]) -> Iterator[str]:
    """Yield why a kind of GPU has no number."""
    for alternative in alternatives:
        if alternative["num_gpus"] is None and alternative["reason"] is not None:
            yield f"{format_gpu(alternative['gpu'])}: {alternative['reason']}"


def _iter_placement_lines(placement: Document) -> Iterator[str]:
    """Yield the nodes on which the first plan runs today.

    With the notes of its placement.
    """
    if placement["status"] != "placed":
        return
    nodes: dict[str, int] = {}
    for seat in placement["nodes"]:
        name = f"{seat['pool']}/{seat['node']}"
        nodes[name] = nodes.get(name, 0) + seat["num_gpus"]
    entries = [f"{name}={num_gpus}" for name, num_gpus in nodes.items()]
    more = (
        f" and {len(entries) - _SHOWN_NODES} more; --json has them all"
        if len(entries) > _SHOWN_NODES
        else ""
    )
    yield f"runs today on {', '.join(entries[:_SHOWN_NODES])}{more}"
    yield from placement["notes"]


def _format_seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g} s"


def _format_amount(value: float | None, *, digits: int = 0) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"
