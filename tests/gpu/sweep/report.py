"""Tables of a data file: ``python -m tests.gpu.sweep.report sweep.jsonl > sweep.md``."""

import argparse
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median, quantiles

from service.estimator.values.units import GIB, MIB
from service.jobs.contract import ServeTask, TrainTask
from tests.gpu.sweep.case import Header, Measurement, Row, read_lines
from tests.gpu.sweep.depth import iter_extrapolations

_P95 = 18
"""Position of the 95th percentile among twentieths."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables of a file."""
    parser = argparse.ArgumentParser(prog="python -m tests.gpu.sweep.report", description=__doc__)
    parser.add_argument("file", type=Path, help="what a sweep wrote")
    path = parser.parse_args(arguments).file
    header, rows = read_lines(path.read_bytes())
    if header is None:
        sys.stderr.write(
            f"{path} is no sweep: it has no environment; run python -m tests.gpu.sweep --out "
            f"{path}\n"
        )
        return 2
    sys.stdout.write(render_markdown(header, rows))
    return 0


def render_markdown(header: Header, rows: Sequence[Row]) -> str:
    """Render the full report."""
    last = {row.case.name: row for row in rows}
    latest = list(last.values())
    sections = [
        _render_environment(header),
        _render_errors(latest),
        _render_constants(latest),
        _render_depth(latest),
        _render_cases(latest),
        _render_times(latest),
        _render_failures(latest),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def _render_environment(header: Header) -> str:
    entries = "; ".join(
        f"{name} {value}" for name, value in header.environment.items() if value is not None
    )
    return f"# Measured on device {header.device}, {header.date}\n\n{header.how}.\n\n{entries}."


def _render_errors(rows: Sequence[Row]) -> str:
    """Summarise predicted over measured by group and quantity."""
    lines = [
        "## Predicted against measured",
        "",
        "| group | cases | quantity | median | p95 | bias |",
        "| --- | --: | --- | --: | --: | --: |",
    ]
    for group in dict.fromkeys(row.case.group for row in rows):
        for quantity, errors in _collect_errors(
            [row for row in rows if row.case.group == group]
        ).items():
            if errors:
                sizes = sorted(abs(error) for error in errors)
                middle, high, bias = median(sizes), _compute_percentile_95(sizes), median(errors)
                lines.append(
                    f"| {group} | {len(errors)} | {quantity} | {middle:.2%} | {high:.2%} | "
                    f"{bias:+.2%} |"
                )
    return "\n".join(lines)


def _collect_errors(rows: Iterable[Row]) -> Mapping[str, list[float]]:
    errors: dict[str, list[float]] = {
        "allocated": [],
        "reserved": [],
        "device": [],
        "step time": [],
    }
    for row in rows:
        if (
            row.measured is None
            or row.predicted is None
            or row.measured.out_of_memory_at is not None
        ):
            continue
        measured, predicted = row.measured, row.predicted
        pairs = {
            "allocated": (predicted.allocated_bytes, measured.live_bytes),
            "reserved": (predicted.reserved_bytes, measured.reserved_bytes),
            "device": (predicted.device_bytes, device_bytes(measured)),
            "step time": (predicted.step_time_s, _compute_step_time_s(measured)),
        }
        for quantity, (estimated, observed) in pairs.items():
            if estimated is not None and observed:
                errors[quantity].append(estimated / observed - 1)
    return errors


def device_bytes(measured: Measurement) -> int | None:
    """Return the bytes that the process took of the GPU.

    They are NVML's own number, else what was more in use than before.
    """
    return (
        measured.device_total_used_bytes if measured.device_bytes is None else measured.device_bytes
    )


def _render_constants(rows: Sequence[Row]) -> str:
    """Summarise the memory on the GPU besides the tensors."""
    measurements = [
        row.measured
        for row in rows
        if row.measured is not None and row.measured.out_of_memory_at is None
    ]
    outside = [
        device - measured.reserved_bytes
        for measured in measurements
        if measured.reserved_bytes is not None and (device := device_bytes(measured)) is not None
    ]
    quantities: Mapping[str, Sequence[int | None]] = {
        "context, before the first tensor": [measured.context_bytes for measured in measurements],
        "outside of the allocator, at the peak": outside,
        "cuBLAS's workspaces, training": _list_workspaces(rows, TrainTask),
        "cuBLAS's workspaces, serving": _list_workspaces(rows, ServeTask),
    }
    lines = [
        _format_spread(name, ordered)
        for name, values in quantities.items()
        if (ordered := _sort_known(values))
    ]
    head = [
        "## Beside the tensors",
        "",
        "| what | cases | least | median | most |",
        "| --- | --: | --: | --: | --: |",
    ]
    return "\n".join([*head, *lines]) if lines else ""


def _sort_known(values: Iterable[int | None]) -> list[int]:
    return sorted(value for value in values if value is not None)


def _format_spread(name: str, ordered: Sequence[int]) -> str:
    low, middle, high = (value / MIB for value in (ordered[0], median(ordered), ordered[-1]))
    return f"| {name} | {len(ordered)} | {low:.1f} MiB | {middle:.1f} MiB | {high:.1f} MiB |"


def _list_workspaces(rows: Iterable[Row], task: type[TrainTask | ServeTask]) -> list[int | None]:
    return [
        row.measured.workspace_bytes
        for row in rows
        if row.measured is not None
        and row.measured.out_of_memory_at is None
        and isinstance(row.case.task, task)
    ]


def _render_depth(rows: Sequence[Row]) -> str:
    """Compare extrapolations from few layers with the full depth."""
    extrapolated = list(iter_extrapolations(rows))
    if not extrapolated:
        return ""
    lines = [
        "## Few layers against full depth",
        "",
        "| case | layers run | extrapolated | measured | error |",
        "| --- | --- | --: | --: | --: |",
    ]
    for item in extrapolated:
        gib = f"{item.extrapolated_bytes / GIB:.3f} GiB | {item.measured_bytes / GIB:.3f} GiB"
        lines.append(
            f"| {item.name} | {item.layers} | {gib} | "
            f"{item.extrapolated_bytes / item.measured_bytes - 1:+.3%} |"
        )
    return "\n".join(lines)


def _render_cases(rows: Iterable[Row]) -> str:
    lines = [
        "## Cases",
        "",
        (
            "| case | live, predicted | live | error | allocated | reserved | predicted | device | "
            "predicted |"
        ),
        "| --- | --: | --: | --: | --: | --: | --: | --: | --: |",
    ]
    lines += [
        f"| {row.case.name} | {' | '.join(_iter_cells(row))} |"
        for row in rows
        if row.measured is not None
    ]
    return "\n".join(lines)


def _iter_cells(row: Row) -> Iterator[str]:
    measured, predicted = row.measured, row.predicted
    assert measured is not None
    yield "" if predicted is None else _format_gib(predicted.allocated_bytes)
    if measured.out_of_memory_at is not None:
        yield from (
            f"out of memory at {_format_gib(measured.out_of_memory_at)}",
            "",
            _format_gib(measured.allocated_bytes),
        )
    else:
        yield _format_gib(measured.live_bytes)
        yield (
            ""
            if predicted is None
            else f"{predicted.allocated_bytes / measured.live_bytes - 1:+.2%}"
        )
        yield _format_gib(measured.allocated_bytes)
    yield _format_gib(measured.reserved_bytes)
    yield "" if predicted is None else _format_gib(predicted.reserved_bytes)
    yield _format_gib(device_bytes(measured))
    yield "" if predicted is None else _format_gib(predicted.device_bytes)


def _render_times(rows: Iterable[Row]) -> str:
    lines = [
        "## Time of a step",
        "",
        "| case | measured | spread | predicted | attention |",
        "| --- | --: | --: | --: | --- |",
    ]
    for row in rows:
        measured, predicted = row.measured, row.predicted
        if measured is None or not measured.step_time_s:
            continue
        middle = median(measured.step_time_s)
        spread = median(abs(seconds - middle) for seconds in measured.step_time_s)
        estimate = (
            ""
            if predicted is None or predicted.step_time_s is None
            else f"{predicted.step_time_s * 1e3:.2f} ms"
        )
        cells = (
            f"{middle * 1e3:.2f} ms | {spread / middle:.1%} | {estimate} | "
            f"{measured.attention or ''}"
        )
        lines.append(f"| {row.case.name} | {cells} |")
    return "\n".join(lines)


def _render_failures(rows: Iterable[Row]) -> str:
    lines = [
        f"- {row.case.name}: {row.refused or row.failed}" for row in rows if row.measured is None
    ]
    return "\n".join(["## Without numbers", "", *lines]) if lines else ""


def _compute_step_time_s(measured: Measurement) -> float | None:
    return median(measured.step_time_s) if measured.step_time_s else None


def _compute_percentile_95(ordered: Sequence[float]) -> float:
    return quantiles(ordered, n=20, method="inclusive")[_P95] if len(ordered) > 1 else ordered[0]


def _format_gib(num_bytes: int | None) -> str:
    return "" if num_bytes is None else f"{num_bytes / GIB:.3f} GiB"


if __name__ == "__main__":
    sys.exit(main())
