"""Output of ``nvidia-smi``: its table, CSV queries and monitors.

CSV is that of ``--query-gpu`` and ``--query-compute-apps``, the monitors are ``pmon`` and ``dmon``.

All of them count MiB, whatever they call them; whether they round or cut is not documented, so that
a number stands for one MiB either side. A GPU's number is the entire device's, with everybody on
it; a process's is that of one process.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from service.formats.measured.reading import (
    MIB,
    Format,
    LeftOut,
    MeasuredFormatError,
    Parsed,
    Place,
    Quantity,
    Reading,
    merge_highest,
)
from service.formats.measured.smi_table import TABLE, read_table
from service.formats.measured.text import iter_lines

DEVICE_COLUMNS = ("memory.used",)
PROCESS_COLUMNS = ("used_gpu_memory", "used_memory")
_AMOUNT = re.compile(r"([0-9]{1,7})(?: ?MiB)?", re.ASCII)
_UNIT = re.compile(r" ?\[(MiB|%|W|MHz|C)\]$")
_MISSING = re.compile(
    r"\[?(N/A|Not Supported|Unknown Error|Insufficient Permissions|GPU is lost|-)\]?"
)


@dataclass(slots=True)
class _Log:
    """Readings parsed so far."""

    readings: list[Reading] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)


def parse_nvidia_smi(text: str) -> Parsed:
    """Return the highest reading of every GPU and of every process."""
    log = _Log()
    if TABLE.search(text):
        readings, environment = read_table(iter_lines(text))
        log.readings += readings
        log.environment |= environment
    else:
        _read_columns(text, log)
    if not log.readings and not log.left_out:
        message = (
            "no line has memory in it; expected nvidia-smi's table, pmon or dmon, or CSV with its "
            "header: nvidia-smi --query-gpu=timestamp,index,uuid,name,driver_version,memory.used "
            "--format=csv -l 1"
        )
        raise MeasuredFormatError(message, line=1)
    by_place: dict[tuple[Quantity, Place], list[Reading]] = {}
    for reading in log.readings:
        by_place.setdefault((reading.quantity, reading.place), []).append(reading)
    return Parsed(
        format=Format.NVIDIA_SMI,
        readings=tuple(merge_highest(readings) for readings in by_place.values()),
        left_out=tuple(log.left_out),
        environment=log.environment,
    )


def _read_columns(text: str, log: _Log) -> None:
    columns: Sequence[str] = ()
    separator = ","
    for number, line in iter_lines(text):
        stripped = line.strip()
        if not stripped:
            continue
        if (header := _read_csv_header(stripped)) is not None:
            columns, separator = header, ","
        elif stripped.startswith("#"):
            names = stripped.lstrip("# ").lower().split()
            columns, separator = (names, "") if "gpu" in names else (columns, separator)
        elif not columns:
            message = (
                f"expected a header before the first numbers, and found {stripped[:60]!r}; "
                "leave noheader out of --format=csv,noheader"
            )
            raise MeasuredFormatError(message, line=number)
        else:
            _read_row(number, _split_cells(stripped, columns, separator, number), log)


def _read_csv_header(line: str) -> Sequence[str] | None:
    names = [_UNIT.sub("", name.strip()) for name in line.split(",")]
    memory_columns = {*DEVICE_COLUMNS, *PROCESS_COLUMNS}
    return names if memory_columns & set(names) else None


def _split_cells(
    line: str, columns: Sequence[str], separator: str, number: int
) -> Mapping[str, str]:
    # A monitor's last column is a command, which may have blanks in it.
    values = (
        [cell.strip() for cell in line.split(",")]
        if separator
        else line.split(maxsplit=max(len(columns) - 1, 0))
    )
    if len(values) > len(columns) and "process_name" in columns:
        at, extra = columns.index("process_name"), len(values) - len(columns)
        values[at : at + extra + 1] = [", ".join(values[at : at + extra + 1])]
    if len(values) != len(columns):
        message = (
            f"has {len(values)} columns; expected the {len(columns)} of the header: "
            f"{', '.join(columns)}"
        )
        raise MeasuredFormatError(message, line=number)
    return dict(zip(columns, values, strict=True))


def _read_row(number: int, row: Mapping[str, str], log: _Log) -> None:
    if "driver_version" in row and not _MISSING.fullmatch(row["driver_version"]):
        log.environment.setdefault("driver", row["driver_version"])
    quantity, column = _detect_quantity(row)
    if column is None:
        log.left_out.append(
            LeftOut(
                what="a row", reason="no column of memory; ask dmon or pmon with -s m", line=number
            ),
        )
        return
    text = row[column]
    place = _make_place(row)
    if _MISSING.fullmatch(text):
        reason = (
            f"{column} is {text}: the driver does not tell (inside a container it cannot see "
            "processes)"
        )
        if row.get("pid", "") not in {"-", ""} or quantity is Quantity.DEVICE_TOTAL_USED:
            log.left_out.append(LeftOut(what=place.label(), reason=reason, line=number))
        return
    if row.get("type") == "G":
        log.left_out.append(
            LeftOut(
                what=place.label(),
                reason="a process that draws (type G) computes nothing",
                line=number,
            ),
        )
        return
    log.readings.append(parse_reading(text, quantity, place, line=number, at=_read_time(row)))


def _detect_quantity(row: Mapping[str, str]) -> tuple[Quantity, str | None]:
    for column in PROCESS_COLUMNS:
        if column in row:
            return Quantity.DEVICE, column
    for column in DEVICE_COLUMNS:
        if column in row:
            return Quantity.DEVICE_TOTAL_USED, column
    return (Quantity.DEVICE if "pid" in row else Quantity.DEVICE_TOTAL_USED), (
        "fb" if "fb" in row else None
    )


def parse_reading(
    text: str, quantity: Quantity, place: Place, *, line: int, at: str | None = None
) -> Reading:
    """Return a reading of a number of MiB."""
    match = _AMOUNT.fullmatch(text)
    if match is None:
        message = f"memory is {text[:40]!r}; expected MiB such as 40537 MiB"
        raise MeasuredFormatError(message, line=line)
    value = int(match[1]) * MIB
    return Reading(
        quantity=quantity,
        value=value,
        low=max(0, value - MIB),
        high=value + MIB,
        place=place,
        line=line,
        sampled=True,
        since=at,
    )


def _make_place(row: Mapping[str, str]) -> Place:
    pid = row.get("pid", "")
    return Place(
        gpu=_find_first(row, ("index", "gpu", "gpu_bus_id", "pci.bus_id", "gpu_serial")),
        gpu_uuid=_find_first(row, ("uuid", "gpu_uuid")),
        gpu_name=_find_first(row, ("name", "gpu_name")),
        pid=int(pid) if pid.isascii() and pid.isdigit() and len(pid) < 12 else None,  # noqa: PLR2004 - no pid has more
        process=_find_first(row, ("process_name", "command")),
    )


def _find_first(row: Mapping[str, str], names: Iterable[str]) -> str | None:
    return next(
        (row[name] for name in names if row.get(name) and not _MISSING.fullmatch(row[name])), None
    )


def _read_time(row: Mapping[str, str]) -> str | None:
    """Return the time of a row as the log has it.

    It is local time, of which the log does not say the zone.
    """
    if row.get("date") and row.get("time"):
        return f"{row['date']} {row['time']}"
    return row.get("timestamp") or None
