"""PyTorch's memory snapshots and statistics, per device.

A snapshot (``torch.cuda.memory._dump_snapshot``, torch/cuda/memory.py) lists what is reserved at
its end (``segments`` of ``blocks``) and what the allocator did before (``device_traces``): going
back from the end through the trace gives the peaks of the recorded window.
``torch.cuda.memory_stats()`` has them without any of that.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from service.formats.measured.reading import (
    Format,
    LeftOut,
    MeasuredFormatError,
    Parsed,
    Place,
    Quantity,
    Reading,
)
from service.formats.measured.text import format_value

ROUNDING_BYTES = 512
"""Granularity of blocks (c10/cuda/CUDACachingAllocator.cpp); a trace has the requested sizes."""
MAX_DEVICES = 128
"""torch is built for no more GPUs in a process (C10_COMPILE_TIME_MAX_GPUS, c10/cuda/CUDAMacros.h).
"""
MIN_ENTRY_BYTES = 11
"""Bytes of a block or an entry of a trace in a pickle that knows its names already: an empty dict,
a mark, two keys, two values, the end.
"""
PEAKS = {
    "allocated_bytes.all.peak": Quantity.ALLOCATED,
    "reserved_bytes.all.peak": Quantity.RESERVED,
}

ALLOCATES = {"alloc": 1, "free_requested": -1}
RESERVES = {"segment_alloc": 1, "segment_map": 1, "segment_free": -1, "segment_unmap": -1}

Json = Mapping[str, object]


@dataclass(slots=True)
class _DeviceTotals:
    """Totals of one device at the end of a snapshot.

    The trace is walked back from them to the peaks.
    """

    allocated: int = 0
    reserved: int = 0
    num_segments: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Window:
    allocated_peak: int
    reserved_peak: int
    first_allocated: int
    num_entries: int
    out_of_memory: bool


def parse_snapshot(document: Json, *, size: int) -> Parsed:
    """Return the peaks of every device of a snapshot.

    ``size`` is that of its file, beyond which nothing can be in it.
    """
    segments, traces = _require_list(document, "segments"), _require_list(document, "device_traces")
    _check_repetition(segments, traces, size)
    totals_by_device = _read_totals(segments)
    readings: list[Reading] = []
    left_out: list[LeftOut] = []
    notes: list[str] = []
    out_of_memory = False
    for device in sorted({*range(len(traces)), *totals_by_device}):
        trace = traces[device] if device < len(traces) else []
        totals = totals_by_device.get(device, _DeviceTotals())
        if not totals.num_segments and not trace:
            continue
        window = _walk_trace(totals, trace, device)
        out_of_memory |= window.out_of_memory
        readings += _iter_readings(window, totals, device)
        notes += _iter_notes(window, device)
    if not readings:
        left_out.append(
            LeftOut(
                what="the snapshot",
                reason="no device has a segment or a trace: nothing was on a GPU",
            ),
        )
    return Parsed(
        format=Format.SNAPSHOT,
        readings=tuple(readings),
        left_out=tuple(left_out),
        environment=_read_environment(document),
        notes=tuple(notes),
        out_of_memory=out_of_memory,
    )


def parse_memory_stats(document: Json) -> Parsed:
    """Return the peaks of ``torch.cuda.memory_stats()``.

    The document is one of them, or several by device: ``{"0": {…}, "1": {…}}``.
    """
    devices = {"0": document} if any(name in document for name in PEAKS) else document
    readings = [
        reading for device, stats in devices.items() for reading in _iter_peaks(str(device), stats)
    ]
    retries = [stats.get("num_ooms") for stats in devices.values() if isinstance(stats, Mapping)]
    return Parsed(
        format=Format.MEMORY_STATS,
        readings=tuple(readings),
        out_of_memory=any(_is_count(n) and n for n in retries),
    )


def _iter_peaks(device: str, stats: object) -> Iterator[Reading]:
    if not isinstance(stats, Mapping) or not any(name in stats for name in PEAKS):
        message = (
            f"device {device[:40]!r} has none of {', '.join(PEAKS)}; expected "
            "torch.cuda.memory_stats()"
        )
        raise MeasuredFormatError(message)
    for name, quantity in PEAKS.items():
        if name in stats:
            value = stats[name]
            if not _is_count(value):
                message = f"{name} of device {device[:40]} is {format_value(value)}; expected bytes"
                raise MeasuredFormatError(message)
            yield Reading(
                quantity=quantity, value=value, low=value, high=value, place=Place(gpu=device)
            )


def _check_repetition(segments: list[object], traces: list[object], size: int) -> None:
    """Refuse a snapshot with more entries than its size holds.

    A pickle may name one list many times over. It is refused before any of it is walked.
    """
    if len(traces) > MAX_DEVICES:
        message = (
            f"has device_traces of {len(traces):,} GPUs; a process of torch has at most "
            f"{MAX_DEVICES}"
        )
        raise MeasuredFormatError(message)
    blocks = (segment.get("blocks") for segment in segments if isinstance(segment, dict))
    for what, lists in (("blocks", blocks), ("entries of traces", traces)):
        num_visits = sum(len(entries) for entries in lists if isinstance(entries, list))
        if num_visits * MIN_ENTRY_BYTES > size:
            message = (
                f"has {num_visits:,} {what} in {size:,} bytes, each of which takes "
                f"{MIN_ENTRY_BYTES} at least: the same ones stand in it many times over"
            )
            raise MeasuredFormatError(message)


def _read_totals(segments: list[object]) -> dict[int, _DeviceTotals]:
    """Return the totals of every device at the end."""
    totals_by_device: dict[int, _DeviceTotals] = {}
    for index, segment in enumerate(segments):
        fields = _require_object(segment, f"segment {index}")
        device = _require_count(fields, "device", f"segment {index}") if "device" in fields else 0
        if device >= MAX_DEVICES:
            message = (
                f"device of segment {index} is {device:,}; a process of torch has GPUs 0 to "
                f"{MAX_DEVICES - 1}"
            )
            raise MeasuredFormatError(message)
        totals = totals_by_device.setdefault(device, _DeviceTotals())
        totals.num_segments += 1
        totals.reserved += _require_count(fields, "total_size", f"segment {index}")
        for block in _require_list(fields, "blocks"):
            block_fields = _require_object(block, f"a block of segment {index}")
            if block_fields.get("state") == "active_allocated":
                totals.allocated += _require_count(
                    block_fields, "size", f"a block of segment {index}"
                )
    return totals_by_device


def _walk_trace(totals: _DeviceTotals, trace: object, device: int) -> _Window:
    """Return the peaks of a trace, walked back from its end."""
    if not isinstance(trace, list):
        message = f"device_traces[{device}] is a {type(trace).__name__}; expected a list"
        raise MeasuredFormatError(message)
    allocated, reserved = totals.allocated, totals.reserved
    peaks = [allocated, reserved]
    out_of_memory = False
    for index in range(len(trace) - 1, -1, -1):
        entry = _require_object(trace[index], f"entry {index} of device {device}")
        action = entry.get("action")
        if not isinstance(action, str):
            continue
        if action in ALLOCATES:
            requested_bytes = _require_count(entry, "size", f"entry {index} of device {device}")
            allocated -= ALLOCATES[action] * (
                -(-requested_bytes // ROUNDING_BYTES) * ROUNDING_BYTES
            )
            peaks[0] = max(peaks[0], allocated)
        elif action in RESERVES:
            reserved -= RESERVES[action] * _require_count(
                entry, "size", f"entry {index} of device {device}"
            )
            peaks[1] = max(peaks[1], reserved)
        out_of_memory |= action == "oom"
    return _Window(
        allocated_peak=peaks[0],
        reserved_peak=max(peaks[1], peaks[0]),
        first_allocated=max(allocated, 0),
        num_entries=len(trace),
        out_of_memory=out_of_memory,
    )


def _iter_readings(window: _Window, totals: _DeviceTotals, device: int) -> Iterator[Reading]:
    place = Place(gpu=str(device))
    # A block may be larger than what it was rounded to, where the rest was too small to be split
    # off; never than its segment.
    exact = window.allocated_peak == totals.allocated
    high = window.allocated_peak if exact else window.reserved_peak
    peak, reserved = window.allocated_peak, window.reserved_peak
    if peak:
        yield Reading(quantity=Quantity.ALLOCATED, value=peak, low=peak, high=high, place=place)
    yield Reading(
        quantity=Quantity.RESERVED, value=reserved, low=reserved, high=reserved, place=place
    )


def _iter_notes(window: _Window, device: int) -> Iterator[str]:
    if not window.num_entries:
        yield (
            f"device {device} has no trace: its numbers are those of the moment of the snapshot, "
            "not of a peak"
        )
    elif window.first_allocated:
        begins = f"{window.first_allocated:,} bytes allocated"
        yield (
            f"the trace of device {device} begins with {begins}: a peak before it is not in the "
            "snapshot"
        )


def _read_environment(document: Json) -> dict[str, str]:
    settings = document.get("allocator_settings")
    if not isinstance(settings, Mapping):
        return {}
    expandable = settings.get("expandable_segments")
    return (
        {"allocator": "expandable_segments" if expandable else "default"}
        if isinstance(expandable, bool)
        else {}
    )


def _require_list(document: Json, name: str) -> list[object]:
    value = document.get(name)
    if not isinstance(value, list):
        message = f'has no list "{name}"; expected what torch.cuda.memory._dump_snapshot() writes'
        raise MeasuredFormatError(message)
    return value


def _require_object(value: object, what: str) -> Json:
    if not isinstance(value, dict):
        message = f"{what} is a {type(value).__name__}; expected an object"
        raise MeasuredFormatError(message)
    return value


def _require_count(document: Json, name: str, what: str) -> int:
    value = document.get(name)
    if not _is_count(value):
        message = f"{name} of {what} is {format_value(value)}; expected bytes"
        raise MeasuredFormatError(message)
    assert isinstance(value, int)  # noqa: S101 - that is what a count is
    return value


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63
