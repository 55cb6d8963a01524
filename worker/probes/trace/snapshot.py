"""A traced run as PyTorch's memory snapshot.

Its viewer (https://pytorch.org/memory_viz) and its tools read it. The keys are those of
``torch.cuda.memory._snapshot``. The viewer colours by ``category``, and stops where there are some
and ``unknown`` is not among them; that is what segments are.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from service.estimator.memory.allocator.caching_allocator import (
    BLOCK_BYTES,
    CachingAllocator,
    make_allocator,
)
from service.estimator.memory.allocator.pool import Block
from service.estimator.values.workload import Allocator
from worker.probes.trace.holdings import find_lasting
from worker.probes.trace.origins import Calls, OriginLedger, resolve_lines
from worker.probes.trace.run import TracedRun

_SMALL_BLOCKS = 2048
"""kSmallSize, 1 MiB: up to so many blocks a request is of the pool of small ones."""
_BASE = 0x7F00_0000_0000
"""Base of the addresses, as on a GPU: the viewer ignores address 0."""
_UNKNOWN = "unknown"
_STEADY_END = "done"

Frames = list[dict[str, Any]]
Entry = dict[str, Any]


def build_snapshot(traced: TracedRun, kind: Allocator) -> dict[str, Any]:
    """Build the allocator's snapshot at the end of the last step.

    Everything that lasts is there then.
    """
    expandable = kind is Allocator.EXPANDABLE_SEGMENTS
    builder = _SnapshotBuilder(
        traced=traced,
        allocator=make_allocator(kind),
        expandable=expandable,
        frames=_collect_frames(traced),
    )
    entries = list(builder.iter_entries(_select_until_steady_end(traced)))
    return {
        "segments": list(builder.iter_segments()),
        "device_traces": [entries],
        "allocator_settings": {"expandable_segments": expandable},
    }


def _select_until_steady_end(traced: TracedRun) -> list[int]:
    ledger = traced.ledger
    end = max(
        (place for place, name in ledger.marks if name == _STEADY_END), default=len(ledger.order)
    )
    return ledger.order[:end]


@dataclass(slots=True, kw_only=True)
class _Segment:
    """Memory that the allocator took from the GPU.

    Address and size are in the allocator's blocks.
    """

    address: int
    size: int
    small: bool


@dataclass(slots=True, kw_only=True)
class _SnapshotBuilder:
    """Builder of a snapshot that replays a ledger."""

    traced: TracedRun
    allocator: CachingAllocator
    expandable: bool
    frames: Sequence[tuple[str, Frames]]
    _live_blocks: dict[int, Block] = field(default_factory=dict)
    _segments: list[_Segment] = field(default_factory=list)

    def iter_entries(self, order: Sequence[int]) -> Iterator[Entry]:
        """Yield the allocator's trace entries, event by event."""
        births = self.traced.ledger.allocations
        for event in order:
            place = event if event >= 0 else ~event
            if not births[place].num_bytes:  # a tensor without elements has no block
                continue
            yield from self._allocate(place) if event >= 0 else self._free(place)

    def iter_segments(self) -> Iterator[Entry]:
        """Yield the reserved segments now, with their blocks."""
        live_blocks = sorted(
            (block.address, block.size, place) for place, block in self._live_blocks.items()
        )
        for segment in sorted(self._segments, key=lambda item: item.address):
            end = segment.address + segment.size
            yield self._make_segment(
                segment, [block for block in live_blocks if segment.address <= block[0] < end]
            )

    def _allocate(self, place: int) -> Iterator[Entry]:
        num_bytes, before = self.traced.ledger.allocations[place].num_bytes, self.allocator.reserved
        block = self.allocator.allocate(-(-num_bytes // BLOCK_BYTES))
        self._live_blocks[place] = block
        category, frames = self.frames[place]
        if grown := self.allocator.reserved - before:
            yield self._grow(block, grown) | {"frames": frames}
        yield _make_entry("alloc", block.address, num_bytes) | {
            "frames": frames,
            "category": category,
        }

    def _free(self, place: int) -> Iterator[Entry]:
        block = self._live_blocks.pop(place)
        address = block.address
        self.allocator.free(block)
        category, frames = self.frames[place]
        for action in ("free_requested", "free_completed"):
            num_bytes = self.traced.ledger.allocations[place].num_bytes
            yield _make_entry(action, address, num_bytes) | {
                "frames": frames,
                "category": category,
            }

    def _grow(self, block: Block, grown: int) -> Entry:
        allocator = self.allocator
        pool = allocator.small if block.size <= _SMALL_BLOCKS else allocator.large
        if pool.end is None:
            self._segments.append(_Segment(address=block.address, size=grown, small=pool.is_small))
            return _make_segment_entry("segment_alloc", block.address, grown)
        begin = pool.end.address - grown
        grown_segment = next(
            (segment for segment in self._segments if segment.address + segment.size == begin), None
        )
        if grown_segment is None:
            self._segments.append(_Segment(address=begin, size=grown, small=pool.is_small))
        else:
            grown_segment.size += grown
        return _make_segment_entry("segment_map", begin, grown)

    def _make_segment(
        self, segment: _Segment, live_blocks: Sequence[tuple[int, int, int]]
    ) -> Entry:
        blocks, reached = [], segment.address
        for address, size, place in live_blocks:
            if address > reached:
                blocks.append(_make_inactive_block(reached, address - reached))
            blocks.append(self._make_active_block(address, size, place))
            reached = address + size
        if (end := segment.address + segment.size) > reached:
            blocks.append(_make_inactive_block(reached, end - reached))
        in_use = sum(size for _, size, _ in live_blocks) * BLOCK_BYTES
        return {
            "device": 0,
            "address": _compute_address(segment.address),
            "total_size": segment.size * BLOCK_BYTES,
            "allocated_size": in_use,
            "active_size": in_use,
            "requested_size": sum(
                self.traced.ledger.allocations[place].num_bytes for _, _, place in live_blocks
            ),
            "stream": 0,
            "segment_type": "small" if segment.small else "large",
            "segment_pool_id": (0, 0),
            "is_expandable": self.expandable,
            "frames": [],
            "blocks": blocks,
        }

    def _make_active_block(self, address: int, size: int, place: int) -> Entry:
        requested = self.traced.ledger.allocations[place].num_bytes
        return _make_block(address, size) | {
            "requested_size": requested,
            "state": "active_allocated",
            "frames": self.frames[place][1],
        }


def _collect_frames(traced: TracedRun) -> tuple[tuple[str, Frames], ...]:
    """Return the category and the frames of every storage.

    Equal frames are one object, which a pickle writes once.
    """
    ledger = traced.ledger
    assert isinstance(ledger, OriginLedger)  # noqa: S101 - what a run that is to be shown is recorded in
    lasting = find_lasting(ledger)
    stacks: dict[Any, Frames] = {}
    entries = []
    for place, (birth, origin) in enumerate(zip(ledger.allocations, ledger.origins, strict=True)):
        role, name = traced.roles.named.get(
            place, (traced.roles.get_role(ledger, place, lasting), "")
        )
        header = (
            (_format_tensor(birth.shape, birth.dtype), birth.operator),
            (name or origin.module, role.value),
        )
        key = (*header, origin.calls, birth.stretch)
        if key not in stacks:
            stacks[key] = [
                *(_make_frame(*parts) for parts in header if all(parts)),
                *_iter_frames(origin.calls),
                _make_frame(birth.stretch, "stretch"),
            ]
        entries.append((role.value, stacks[key]))
    return tuple(entries)


def _format_tensor(shape: Sequence[int], dtype: str) -> str:
    return f"{' x '.join(map(str, shape)) or 'scalar'} {dtype}"


@cache
def _make_frame(filename: str, name: str, line: int = 0) -> dict[str, Any]:
    return {"filename": filename, "line": line, "name": name}


def _iter_frames(calls: Calls) -> Iterator[dict[str, Any]]:
    return (_make_frame(filename, name, line) for filename, line, name in resolve_lines(calls))


def _compute_address(blocks: int) -> int:
    return _BASE + blocks * BLOCK_BYTES


def _make_entry(action: str, address: int, num_bytes: int) -> Entry:
    return {"action": action, "addr": _compute_address(address), "size": num_bytes, "stream": 0}


def _make_segment_entry(action: str, address: int, size: int) -> Entry:
    return _make_entry(action, address, size * BLOCK_BYTES) | {"category": _UNKNOWN}


def _make_block(address: int, size: int) -> Entry:
    return {"address": _compute_address(address), "size": size * BLOCK_BYTES}


def _make_inactive_block(address: int, size: int) -> Entry:
    return _make_block(address, size) | {"requested_size": 0, "state": "inactive", "frames": []}
