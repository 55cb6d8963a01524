"""PyTorch's memory snapshots and statistics: the allocator's own books, per device.

A snapshot (``torch.cuda.memory._dump_snapshot``, torch/cuda/memory.py) lists what is reserved at its end (``segments`` of
``blocks``) and what the allocator did before (``device_traces``): going back from the end through the trace gives the peaks of
the recorded window. ``torch.cuda.memory_stats()`` has them without any of that.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from service.formats.measured.reading import Format, LeftOut, MeasuredFormatError, Parsed, Place, Quantity, Reading
from service.formats.measured.text import shown

ROUNDING_BYTES = 512
"""A trace has what was asked for; blocks are handed out in multiples of this (c10/cuda/CUDACachingAllocator.cpp)."""
MAX_DEVICES = 128
"""torch is built for no more GPUs in a process (C10_COMPILE_TIME_MAX_GPUS, c10/cuda/CUDAMacros.h)."""
LEAST_ENTRY_BYTES = 11
"""A block or an entry of a trace in a pickle, its words known already: an empty dict, a mark, two keys, two values, the end."""
PEAKS = {"allocated_bytes.all.peak": Quantity.ALLOCATED, "reserved_bytes.all.peak": Quantity.RESERVED}

_ALLOCATES = {"alloc": 1, "free_requested": -1}
_RESERVES = {"segment_alloc": 1, "segment_map": 1, "segment_free": -1, "segment_unmap": -1}

Json = Mapping[str, object]


@dataclass(slots=True)
class _Books:
    """One device: bytes at the end, and the way back to the peaks."""

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
    """Return the peaks of every device of a snapshot; ``size`` is that of its file, beyond which nothing can be in it."""
    segments, traces = _list(document, "segments"), _list(document, "device_traces")
    _require_own(segments, traces, size)
    books = _books(segments)
    readings: list[Reading] = []
    left_out: list[LeftOut] = []
    notes: list[str] = []
    out_of_memory = False
    for device in sorted({*range(len(traces)), *books}):
        trace = traces[device] if device < len(traces) else []
        own = books.get(device, _Books())
        if not own.num_segments and not trace:
            continue
        window = _window(own, trace, device)
        out_of_memory |= window.out_of_memory
        readings += _readings(window, own, device)
        notes += _notes(window, device)
    if not readings:
        left_out.append(LeftOut(what="the snapshot", reason="no device has a segment or a trace: nothing was on a GPU"))
    return Parsed(
        format=Format.SNAPSHOT,
        readings=tuple(readings),
        left_out=tuple(left_out),
        environment=_environment(document),
        notes=tuple(notes),
        out_of_memory=out_of_memory,
    )


def parse_memory_stats(document: Json) -> Parsed:
    """Return the peaks of one ``torch.cuda.memory_stats()``, or of several by device: ``{"0": {…}, "1": {…}}``."""
    devices = {"0": document} if any(name in document for name in PEAKS) else document
    readings = [reading for device, stats in devices.items() for reading in _peaks(str(device), stats)]
    retries = [stats.get("num_ooms") for stats in devices.values() if isinstance(stats, Mapping)]
    return Parsed(format=Format.MEMORY_STATS, readings=tuple(readings), out_of_memory=any(_is_count(n) and n for n in retries))


def _peaks(device: str, stats: object) -> Iterator[Reading]:
    if not isinstance(stats, Mapping) or not any(name in stats for name in PEAKS):
        message = f"device {device[:40]!r} has none of {', '.join(PEAKS)}; expected torch.cuda.memory_stats()"
        raise MeasuredFormatError(message)
    for name, quantity in PEAKS.items():
        if name in stats:
            value = stats[name]
            if not _is_count(value):
                message = f"{name} of device {device[:40]} is {shown(value)}; expected bytes"
                raise MeasuredFormatError(message)
            yield Reading(quantity=quantity, value=value, low=value, high=value, place=Place(gpu=device))


def _require_own(segments: list[object], traces: list[object], size: int) -> None:
    """Refuse, before any of it is walked, what cannot be in so small a file: a pickle may name one list many times over."""
    if len(traces) > MAX_DEVICES:
        message = f"has device_traces of {len(traces):,} GPUs; a process of torch has at most {MAX_DEVICES}"
        raise MeasuredFormatError(message)
    blocks = (segment.get("blocks") for segment in segments if isinstance(segment, dict))
    for what, lists in (("blocks", blocks), ("entries of traces", traces)):
        num_visits = sum(len(one) for one in lists if isinstance(one, list))
        if num_visits * LEAST_ENTRY_BYTES > size:
            message = (
                f"has {num_visits:,} {what} in {size:,} bytes, each of which takes {LEAST_ENTRY_BYTES} at least: "
                "the same ones stand in it many times over"
            )
            raise MeasuredFormatError(message)


def _books(segments: list[object]) -> dict[int, _Books]:
    """Return what every device holds at the end."""
    books: dict[int, _Books] = {}
    for index, segment in enumerate(segments):
        found = _object(segment, f"segment {index}")
        device = _count(found, "device", f"segment {index}") if "device" in found else 0
        if device >= MAX_DEVICES:
            message = f"device of segment {index} is {device:,}; a process of torch has GPUs 0 to {MAX_DEVICES - 1}"
            raise MeasuredFormatError(message)
        own = books.setdefault(device, _Books())
        own.num_segments += 1
        own.reserved += _count(found, "total_size", f"segment {index}")
        for block in _list(found, "blocks"):
            held = _object(block, f"a block of segment {index}")
            if held.get("state") == "active_allocated":
                own.allocated += _count(held, "size", f"a block of segment {index}")
    return books


def _window(books: _Books, trace: object, device: int) -> _Window:
    """Return the peaks of a trace, walked back from what is there at its end."""
    if not isinstance(trace, list):
        message = f"device_traces[{device}] is a {type(trace).__name__}; expected a list"
        raise MeasuredFormatError(message)
    allocated, reserved = books.allocated, books.reserved
    peaks = [allocated, reserved]
    out_of_memory = False
    for index in range(len(trace) - 1, -1, -1):
        entry = _object(trace[index], f"entry {index} of device {device}")
        action = entry.get("action")
        if not isinstance(action, str):
            continue
        if action in _ALLOCATES:
            asked = _count(entry, "size", f"entry {index} of device {device}")
            allocated -= _ALLOCATES[action] * (-(-asked // ROUNDING_BYTES) * ROUNDING_BYTES)
            peaks[0] = max(peaks[0], allocated)
        elif action in _RESERVES:
            reserved -= _RESERVES[action] * _count(entry, "size", f"entry {index} of device {device}")
            peaks[1] = max(peaks[1], reserved)
        out_of_memory |= action == "oom"
    return _Window(
        allocated_peak=peaks[0],
        reserved_peak=max(peaks[1], peaks[0]),
        first_allocated=max(allocated, 0),
        num_entries=len(trace),
        out_of_memory=out_of_memory,
    )


def _readings(window: _Window, books: _Books, device: int) -> Iterator[Reading]:
    place = Place(gpu=str(device))
    # A block may be larger than what it was rounded to, where the rest was too small to be split off; never than its segment.
    exact = window.allocated_peak == books.allocated
    high = window.allocated_peak if exact else window.reserved_peak
    peak, reserved = window.allocated_peak, window.reserved_peak
    if peak:
        yield Reading(quantity=Quantity.ALLOCATED, value=peak, low=peak, high=high, place=place)
    yield Reading(quantity=Quantity.RESERVED, value=reserved, low=reserved, high=reserved, place=place)


def _notes(window: _Window, device: int) -> Iterator[str]:
    if not window.num_entries:
        yield f"device {device} has no trace: its numbers are those of the moment of the snapshot, not of a peak"
    elif window.first_allocated:
        begins = f"{window.first_allocated:,} bytes allocated"
        yield f"the trace of device {device} begins with {begins}: a peak before it is not in the snapshot"


def _environment(document: Json) -> dict[str, str]:
    settings = document.get("allocator_settings")
    if not isinstance(settings, Mapping):
        return {}
    expandable = settings.get("expandable_segments")
    return {"allocator": "expandable_segments" if expandable else "default"} if isinstance(expandable, bool) else {}


def _list(document: Json, name: str) -> list[object]:
    found = document.get(name)
    if not isinstance(found, list):
        message = f'has no list "{name}"; expected what torch.cuda.memory._dump_snapshot() writes'
        raise MeasuredFormatError(message)
    return found


def _object(value: object, what: str) -> Json:
    if not isinstance(value, dict):
        message = f"{what} is a {type(value).__name__}; expected an object"
        raise MeasuredFormatError(message)
    return value


def _count(document: Json, name: str, what: str) -> int:
    value = document.get(name)
    if not _is_count(value):
        message = f"{name} of {what} is {shown(value)}; expected bytes"
        raise MeasuredFormatError(message)
    assert isinstance(value, int)  # noqa: S101 - that is what a count is
    return value


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63
