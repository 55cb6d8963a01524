"""A traced run as a memory snapshot of PyTorch's: what its viewer (https://pytorch.org/memory_viz) and its tools read.

The keys are those of ``torch.cuda.memory._snapshot``. The viewer colours by ``category``, and stops where there are some and
``unknown`` is not among them; that is what segments are.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from service.estimator.memory.allocator.caching_allocator import BLOCK_BYTES, Block, CachingAllocator, allocator_of
from service.estimator.values.workload import Allocator
from worker.probes.trace.holdings import lasting_of
from worker.probes.trace.origins import Calls, TellingLedger, lines_of
from worker.probes.trace.run import Traced

_BASE = 0x7F00_0000_0000
"""Addresses as on a GPU: the viewer takes none for nothing at all."""
_UNKNOWN = "unknown"
_STEADY_END = "done"

Frames = list[dict[str, Any]]
Entry = dict[str, Any]


def snapshot_of(traced: Traced, kind: Allocator) -> dict[str, Any]:
    """Return the allocator's books up to the end of the last step, while everything that lasts is there."""
    expandable = kind is Allocator.EXPANDABLE_SEGMENTS
    books = _Books(traced=traced, allocator=allocator_of(kind), expandable=expandable, frames=_told(traced))
    entries = list(books.entries(_until_steady_end(traced)))
    return {
        "segments": list(books.segments()),
        "device_traces": [entries],
        "allocator_settings": {"expandable_segments": expandable},
    }


def _until_steady_end(traced: Traced) -> list[int]:
    ledger = traced.ledger
    end = max((place for place, name in ledger.marks if name == _STEADY_END), default=len(ledger.order))
    return ledger.order[:end]


@dataclass(slots=True, kw_only=True)
class _Segment:
    """Memory that the allocator took from the GPU, in blocks of its own."""

    address: int
    size: int
    small: bool


@dataclass(slots=True, kw_only=True)
class _Books:
    """The allocator as it goes through a ledger."""

    traced: Traced
    allocator: CachingAllocator
    expandable: bool
    frames: Sequence[tuple[str, Frames]]
    _held: dict[int, Block] = field(default_factory=dict)
    _segments: list[_Segment] = field(default_factory=list)

    def entries(self, order: Sequence[int]) -> Iterator[Entry]:
        """Yield what the allocator does, event by event."""
        births = self.traced.ledger.births
        for event in order:
            place = event if event >= 0 else ~event
            if not births[place].num_bytes:  # a tensor without elements has no block
                continue
            yield from self._allocate(place) if event >= 0 else self._free(place)

    def segments(self) -> Iterator[Entry]:
        """Yield what is reserved now, block by block."""
        held = sorted((block[0], block[1], place) for place, block in self._held.items())
        for segment in sorted(self._segments, key=lambda one: one.address):
            end = segment.address + segment.size
            yield self._segment(segment, [block for block in held if segment.address <= block[0] < end])

    def _allocate(self, place: int) -> Iterator[Entry]:
        num_bytes, before = self.traced.ledger.births[place].num_bytes, self.allocator.reserved
        block = self.allocator.allocate(-(-num_bytes // BLOCK_BYTES))
        self._held[place] = block
        category, frames = self.frames[place]
        if grown := self.allocator.reserved - before:
            yield self._grow(block, grown) | {"frames": frames}
        yield _entry("alloc", block[0], num_bytes) | {"frames": frames, "category": category}

    def _free(self, place: int) -> Iterator[Entry]:
        block = self._held.pop(place)
        self.allocator.free(block)
        category, frames = self.frames[place]
        for action in ("free_requested", "free_completed"):
            num_bytes = self.traced.ledger.births[place].num_bytes
            yield _entry(action, block[0], num_bytes) | {"frames": frames, "category": category}

    def _grow(self, block: Block, grown: int) -> Entry:
        address, _, pool = block
        if not self.expandable:
            self._segments.append(_Segment(address=address, size=grown, small=pool.small))
            return _segment_entry("segment_alloc", address, grown)
        begin = pool.end - grown
        own = next((one for one in self._segments if one.address + one.size == begin), None)
        if own is None:
            self._segments.append(_Segment(address=begin, size=grown, small=pool.small))
        else:
            own.size += grown
        return _segment_entry("segment_map", begin, grown)

    def _segment(self, segment: _Segment, held: Sequence[tuple[int, int, int]]) -> Entry:
        blocks, reached = [], segment.address
        for address, size, place in held:
            if address > reached:
                blocks.append(_inactive(reached, address - reached))
            blocks.append(self._active(address, size, place))
            reached = address + size
        if (end := segment.address + segment.size) > reached:
            blocks.append(_inactive(reached, end - reached))
        in_use = sum(size for _, size, _ in held) * BLOCK_BYTES
        return {
            "device": 0,
            "address": _address(segment.address),
            "total_size": segment.size * BLOCK_BYTES,
            "allocated_size": in_use,
            "active_size": in_use,
            "requested_size": sum(self.traced.ledger.births[place].num_bytes for _, _, place in held),
            "stream": 0,
            "segment_type": "small" if segment.small else "large",
            "segment_pool_id": (0, 0),
            "is_expandable": self.expandable,
            "frames": [],
            "blocks": blocks,
        }

    def _active(self, address: int, size: int, place: int) -> Entry:
        requested = self.traced.ledger.births[place].num_bytes
        return _block(address, size) | {
            "requested_size": requested,
            "state": "active_allocated",
            "frames": self.frames[place][1],
        }


def _told(traced: Traced) -> tuple[tuple[str, Frames], ...]:
    """Return the category and the frames of every storage; what is the same is one object, which a pickle writes once."""
    ledger = traced.ledger
    assert isinstance(ledger, TellingLedger)  # noqa: S101 - what a run that is to be shown is recorded in
    lasting = lasting_of(ledger)
    stacks: dict[Any, Frames] = {}
    told = []
    for place, (birth, origin) in enumerate(zip(ledger.births, ledger.origins, strict=True)):
        role, name = traced.roles.named.get(place, (traced.roles.of(ledger, place, lasting), ""))
        above = ((_tensor(birth.shape, birth.dtype), birth.operator), (name or origin.module, role.value))
        key = (*above, origin.calls, birth.stretch)
        if key not in stacks:
            stacks[key] = [
                *(_frame(*words) for words in above if all(words)),
                *_calls(origin.calls),
                _frame(birth.stretch, "stretch"),
            ]
        told.append((role.value, stacks[key]))
    return tuple(told)


def _tensor(shape: Sequence[int], dtype: str) -> str:
    return f"{' x '.join(map(str, shape)) or 'scalar'} {dtype}"


@cache
def _frame(filename: str, name: str, line: int = 0) -> dict[str, Any]:
    return {"filename": filename, "line": line, "name": name}


def _calls(calls: Calls) -> Iterator[dict[str, Any]]:
    return (_frame(filename, name, line) for filename, line, name in lines_of(calls))


def _address(blocks: int) -> int:
    return _BASE + blocks * BLOCK_BYTES


def _entry(action: str, address: int, num_bytes: int) -> Entry:
    return {"action": action, "addr": _address(address), "size": num_bytes, "stream": 0}


def _segment_entry(action: str, address: int, size: int) -> Entry:
    return _entry(action, address, size * BLOCK_BYTES) | {"category": _UNKNOWN}


def _block(address: int, size: int) -> Entry:
    return {"address": _address(address), "size": size * BLOCK_BYTES}


def _inactive(address: int, size: int) -> Entry:
    return _block(address, size) | {"requested_size": 0, "state": "inactive", "frames": []}
