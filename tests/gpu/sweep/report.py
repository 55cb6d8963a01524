"""Turns a data file into tables: ``python -m tests.gpu.sweep.report sweep.jsonl > sweep.md``."""

import argparse
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median, quantiles

from service.estimator.values.units import GIB, MIB
from service.jobs.contract import ServeTask, TrainTask
from tests.gpu.sweep.case import Header, Measured, Row, read_lines
from tests.gpu.sweep.depth import extrapolations

_P95 = 18
"""Position of the 95th percentile among twentieths."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables of a file."""
    parser = argparse.ArgumentParser(prog="python -m tests.gpu.sweep.report", description=__doc__)
    parser.add_argument("file", type=Path, help="what a sweep wrote")
    path = parser.parse_args(arguments).file
    header, rows = read_lines(path.read_bytes())
    if header is None:
        sys.stderr.write(f"{path} is no sweep: it has no environment; run python -m tests.gpu.sweep --out {path}\n")
        return 2
    sys.stdout.write(markdown(header, rows))
    return 0


def markdown(header: Header, rows: Sequence[Row]) -> str:
    """Return the whole report."""
    last = {row.case.name: row for row in rows}
    told = list(last.values())
    sections = [
        _environment(header),
        _errors(told),
        _constants(told),
        _depth(told),
        _cases(told),
        _times(told),
        _without_numbers(told),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def _environment(header: Header) -> str:
    words = "; ".join(f"{name} {value}" for name, value in header.environment.items() if value is not None)
    return f"# Measured on device {header.device}, {header.date}\n\n{header.how}.\n\n{words}."


def _errors(rows: Sequence[Row]) -> str:
    """Summarise predicted over measured by group and quantity."""
    lines = [
        "## Predicted against measured",
        "",
        "| group | cases | quantity | median | p95 | bias |",
        "| --- | --: | --- | --: | --: | --: |",
    ]
    for group in dict.fromkeys(row.case.group for row in rows):
        for quantity, errors in _errors_of([row for row in rows if row.case.group == group]).items():
            if errors:
                sizes = sorted(abs(error) for error in errors)
                middle, high, bias = median(sizes), _percentile_95(sizes), median(errors)
                lines.append(f"| {group} | {len(errors)} | {quantity} | {middle:.2%} | {high:.2%} | {bias:+.2%} |")
    return "\n".join(lines)


def _errors_of(rows: Iterable[Row]) -> Mapping[str, list[float]]:
    errors: dict[str, list[float]] = {"allocated": [], "reserved": [], "device": [], "step time": []}
    for row in rows:
        if row.measured is None or row.predicted is None or row.measured.out_of_memory_at is not None:
            continue
        measured, predicted = row.measured, row.predicted
        pairs = {
            "allocated": (predicted.allocated_bytes, measured.live_bytes),
            "reserved": (predicted.reserved_bytes, measured.reserved_bytes),
            "device": (predicted.device_bytes, device_bytes(measured)),
            "step time": (predicted.step_time_s, _step_time_s(measured)),
        }
        for quantity, (said, found) in pairs.items():
            if said is not None and found:
                errors[quantity].append(said / found - 1)
    return errors


def device_bytes(measured: Measured) -> int | None:
    """Return what the process took of the GPU: NVML's own number, else what was more in use than before."""
    return measured.device_total_used_bytes if measured.device_bytes is None else measured.device_bytes


def _constants(rows: Sequence[Row]) -> str:
    """Tell what lies on the GPU beside the tensors."""
    found = [row.measured for row in rows if row.measured is not None and row.measured.out_of_memory_at is None]
    outside = [
        device - measured.reserved_bytes
        for measured in found
        if measured.reserved_bytes is not None and (device := device_bytes(measured)) is not None
    ]
    named: Mapping[str, Sequence[int | None]] = {
        "context, before the first tensor": [measured.context_bytes for measured in found],
        "outside of the allocator, at the peak": outside,
        "cuBLAS's workspaces, training": _workspaces(rows, TrainTask),
        "cuBLAS's workspaces, serving": _workspaces(rows, ServeTask),
    }
    told = [_spread(name, known) for name, values in named.items() if (known := _known(values))]
    head = ["## Beside the tensors", "", "| what | cases | least | median | most |", "| --- | --: | --: | --: | --: |"]
    return "\n".join([*head, *told]) if told else ""


def _known(values: Iterable[int | None]) -> list[int]:
    return sorted(value for value in values if value is not None)


def _spread(name: str, ordered: Sequence[int]) -> str:
    low, middle, high = (value / MIB for value in (ordered[0], median(ordered), ordered[-1]))
    return f"| {name} | {len(ordered)} | {low:.1f} MiB | {middle:.1f} MiB | {high:.1f} MiB |"


def _workspaces(rows: Iterable[Row], task: type[TrainTask | ServeTask]) -> list[int | None]:
    return [
        row.measured.workspace_bytes
        for row in rows
        if row.measured is not None and row.measured.out_of_memory_at is None and isinstance(row.case.task, task)
    ]


def _depth(rows: Sequence[Row]) -> str:
    """Hold what few layers say of the full depth against the full depth."""
    found = list(extrapolations(rows))
    if not found:
        return ""
    lines = [
        "## Few layers against full depth",
        "",
        "| case | layers run | extrapolated | measured | error |",
        "| --- | --- | --: | --: | --: |",
    ]
    for one in found:
        gib = f"{one.extrapolated_bytes / GIB:.3f} GiB | {one.measured_bytes / GIB:.3f} GiB"
        lines.append(f"| {one.name} | {one.layers} | {gib} | {one.extrapolated_bytes / one.measured_bytes - 1:+.3%} |")
    return "\n".join(lines)


def _cases(rows: Iterable[Row]) -> str:
    lines = [
        "## Cases",
        "",
        "| case | live, predicted | live | error | allocated | reserved | predicted | device | predicted |",
        "| --- | --: | --: | --: | --: | --: | --: | --: | --: |",
    ]
    lines += [f"| {row.case.name} | {' | '.join(_cells(row))} |" for row in rows if row.measured is not None]
    return "\n".join(lines)


def _cells(row: Row) -> Iterator[str]:
    measured, predicted = row.measured, row.predicted
    assert measured is not None
    yield "" if predicted is None else _gib(predicted.allocated_bytes)
    if measured.out_of_memory_at is not None:
        yield from (f"out of memory at {_gib(measured.out_of_memory_at)}", "", _gib(measured.allocated_bytes))
    else:
        yield _gib(measured.live_bytes)
        yield "" if predicted is None else f"{predicted.allocated_bytes / measured.live_bytes - 1:+.2%}"
        yield _gib(measured.allocated_bytes)
    yield _gib(measured.reserved_bytes)
    yield "" if predicted is None else _gib(predicted.reserved_bytes)
    yield _gib(device_bytes(measured))
    yield "" if predicted is None else _gib(predicted.device_bytes)


def _times(rows: Iterable[Row]) -> str:
    lines = ["## Time of a step", "", "| case | measured | spread | predicted | attention |", "| --- | --: | --: | --: | --- |"]
    for row in rows:
        measured, predicted = row.measured, row.predicted
        if measured is None or not measured.step_time_s:
            continue
        middle = median(measured.step_time_s)
        spread = median(abs(seconds - middle) for seconds in measured.step_time_s)
        said = "" if predicted is None or predicted.step_time_s is None else f"{predicted.step_time_s * 1e3:.2f} ms"
        told = f"{middle * 1e3:.2f} ms | {spread / middle:.1%} | {said} | {measured.attention or ''}"
        lines.append(f"| {row.case.name} | {told} |")
    return "\n".join(lines)


def _without_numbers(rows: Iterable[Row]) -> str:
    told = [f"- {row.case.name}: {row.refused or row.failed}" for row in rows if row.measured is None]
    return "\n".join(["## Without numbers", "", *told]) if told else ""


def _step_time_s(measured: Measured) -> float | None:
    return median(measured.step_time_s) if measured.step_time_s else None


def _percentile_95(ordered: Sequence[float]) -> float:
    return quantiles(ordered, n=20, method="inclusive")[_P95] if len(ordered) > 1 else ordered[0]


def _gib(num_bytes: int | None) -> str:
    return "" if num_bytes is None else f"{num_bytes / GIB:.3f} GiB"


if __name__ == "__main__":
    sys.exit(main())
