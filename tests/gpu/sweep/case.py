"""One configuration of a sweep, and its line in the data file."""

from dataclasses import replace
from typing import Any

import msgspec

from service.estimator.values.generation import Client
from service.estimator.values.layout import Layout
from service.jobs.contract import ServeTask, Task


class Case(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A model of the catalogue under a workload.

    ``layers`` None is its full depth. ``name`` is unique.
    """

    name: str
    group: str
    """The group of cases in which one thing varies."""
    model: str
    task: Task
    layers: tuple[int, ...] | None = None
    layout: Layout = Layout()
    rank: int = 0
    small: bool = False
    """Whether a processor runs it in seconds."""


class Measurement(msgspec.Struct, frozen=True, kw_only=True):
    """Measured bytes and seconds; None is what this device does not report.

    ``live`` are the bytes that tensors asked for, without cuBLAS's workspaces; ``allocated`` is
    what torch calls so, with them. ``context`` is there before the first tensor, ``device`` is this
    process by NVML, ``device_total_used`` the GPU less what was there before.
    """

    live_bytes: int
    allocated_bytes: int
    reserved_bytes: int | None = None
    device_bytes: int | None = None
    device_total_used_bytes: int | None = None
    context_bytes: int | None = None
    workspace_bytes: int | None = None
    steady_bytes: int
    load_bytes: int
    step_time_s: tuple[float, ...] = ()
    prefill_time_s: tuple[float, ...] = ()
    stretches: dict[str, tuple[int, int]] = msgspec.field(default_factory=dict)
    """Live and allocated bytes by stretch of the last step."""
    out_of_memory_at: int | None = None
    attention: str | None = None
    transferable: bool = True
    notes: tuple[str, ...] = ()


class Prediction(msgspec.Struct, frozen=True, kw_only=True):
    """The estimator's prediction before the measurement."""

    allocated_bytes: int
    reserved_bytes: int
    device_bytes: int
    steady_bytes: int
    instants: dict[str, int]
    step_time_s: float | None = None
    prefill_time_s: float | None = None


class Row(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="row"):
    """A case with its outcome.

    It is ``measured``, or in ``refused`` and ``failed`` the reason why there is no measurement.
    """

    case: Case
    predicted: Prediction | None = None
    measured: Measurement | None = None
    refused: str | None = None
    failed: str | None = None
    seconds: float = 0.0


class Header(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="sweep"):
    """Place, date and method of all rows of a file."""

    date: str
    device: str
    how: str
    environment: dict[str, Any]


def read_lines(text: bytes) -> tuple[Header | None, list[Row]]:
    """Read a data file.

    A last line that was cut off when a sweep was killed is dropped.
    """
    header, rows = None, []
    *lines, partial = text.split(b"\n")
    for line in lines:
        entry: Header | Row = msgspec.json.decode(line, type=Header | Row)
        if isinstance(entry, Header):
            header = entry
        else:
            rows.append(entry if b'"client"' in line else _name_client(entry))
    del partial
    return header, rows


def _name_client(row: Row) -> Row:
    """Return a row from before clients were words: replicas ran in a plain loop."""
    task = row.case.task
    if not isinstance(task, ServeTask):
        return row
    looped = ServeTask(workload=replace(task.workload, client=Client.LOOP))
    return msgspec.structs.replace(row, case=msgspec.structs.replace(row.case, task=looped))
