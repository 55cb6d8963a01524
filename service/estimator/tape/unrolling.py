"""Expansion of a log whose long repeats were recorded in part.

Repeats are recorded by their first and last blocks alone. Equal blocks come and go alike: what one
allocates, what it frees of its own and of its neighbours. Two blocks in the middle are compared
event by event; when they agree, and nothing reaches further than a neighbour, those that were left
out are theirs with other numbers. The result equals a log of every block, number by number.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from operator import add, sub
from typing import NamedTuple

from service.estimator.tape.event_log import Events, group_buffers
from service.estimator.tape.kernel_buffers import KernelBuffer
from service.estimator.tape.loops import LAST_LEADING, RECORDED, TEMPLATE, Loop

_OUTSIDE = -1
"""In place of a loop's number: between the loops."""


class _LogSlice(NamedTuple):
    """Events of one recorded block, or of the part between loops.

    Phase 0 is forward, phase 1 is backward.
    """

    loop: int
    phase: int
    block: int
    begin: int
    end: int


class _Allocation(NamedTuple):
    """An allocation.

    It has the kind of its size, whether it stays as a gradient, the elements of a shard, and the
    buffer of a kernel that it is.
    """

    kind: int
    is_gradient: bool
    shard: int | None
    buffer: KernelBuffer | None

    @property
    def stays(self) -> bool:
        """Whether it is a workspace.

        The first block alone has it, and nothing releases it.
        """
        return self.buffer is not None and self.buffer.stays


class _Release(NamedTuple):
    """A release of storage number ``position`` of a block.

    ``block`` is the block's number, or in the same loop how many blocks it is away.
    """

    loop: int
    phase: int
    block: int
    position: int


_Action = _Allocation | _Release
_Log = Sequence[tuple[_LogSlice, list[_Action]]]


def unroll_repeats(events: Events, loops: Sequence[Loop]) -> Events | None:
    """Return the log of all blocks.

    None where the blocks of a repeat are not alike.
    """
    if not loops:
        return events
    if any(len(loop.backward) != RECORDED + 1 for loop in loops):
        return None
    slices = list(_iter_slices(loops, len(events.order)))
    actions = list(zip(slices, _iter_actions(events, slices), strict=True))
    return _write_log(events, loops, actions) if _is_regular(actions, len(loops)) else None


def _iter_slices(loops: Sequence[Loop], length: int) -> Iterator[_LogSlice]:
    """Yield the slices of the whole log in order, block by block."""
    blocks: list[_LogSlice] = []
    for number, loop in enumerate(loops):
        blocks += [
            _LogSlice(number, 0, turn, *ends) for turn, ends in enumerate(pairwise(loop.forward))
        ]
        blocks += [
            _LogSlice(number, 1, RECORDED - 1 - turn, *ends)
            for turn, ends in enumerate(pairwise(loop.backward))
        ]
    blocks.sort(key=lambda block: block.begin)
    reached = 0
    for block in blocks:
        yield _LogSlice(_OUTSIDE, 0, 0, reached, block.begin)
        yield block
        reached = block.end
    yield _LogSlice(_OUTSIDE, 0, 0, reached, length)


def _iter_actions(events: Events, slices: Sequence[_LogSlice]) -> Iterator[list[_Action]]:
    """Yield the actions of each slice, independent of its block number."""
    allocations: dict[int, _Release] = {}
    num_allocations: dict[tuple[int, int, int], int] = defaultdict(int)
    shards = dict(events.shards)
    buffers = {index: buffer for buffer, indices in events.buffers for index in indices}
    for loop, phase, block, begin, end in slices:
        actions: list[_Action] = []
        count = num_allocations[loop, phase, block]
        for event in events.order[begin:end]:
            if event >= 0:
                action = _Allocation(
                    events.kinds[event],
                    event in events.gradients,
                    shards.get(event),
                    buffers.get(event),
                )
                actions.append(action)
                allocations[event] = _Release(loop, phase, block, count)
                count += not action.stays
                continue
            release = allocations[~event]
            if release.loop == loop != _OUTSIDE:
                release = _Release(loop, release.phase, release.block - block, release.position)
            actions.append(release)
        num_allocations[loop, phase, block] = count
        yield actions


def _is_regular(log: _Log, num_loops: int) -> bool:
    """Return whether the middle blocks of each loop are alike.

    Nothing but a neighbour may reach into them either.
    """
    middle: dict[tuple[int, int, int], list[_Action]] = {}
    for log_slice, actions in log:
        if log_slice.block in {LAST_LEADING, TEMPLATE}:
            middle[log_slice.loop, log_slice.phase, log_slice.block] = actions
        for action in actions:
            if not isinstance(action, _Release) or action.loop == _OUTSIDE:
                continue
            if (
                abs(action.block) > 1
                if action.loop == log_slice.loop
                else action.block in {LAST_LEADING, TEMPLATE}
            ):
                return False
    pairs = ((loop, phase) for loop in range(num_loops) for phase in range(2))
    return all(
        middle[loop, phase, LAST_LEADING] == middle[loop, phase, TEMPLATE] for loop, phase in pairs
    )


def _write_log(events: Events, loops: Sequence[Loop], log: _Log) -> Events:
    """Return the log with the omitted blocks, numbered in order."""
    writer = _Writer(loops)
    for log_slice, actions in log:
        if log_slice.loop == _OUTSIDE:
            writer.write(log_slice, actions, 0)
            continue
        loop = loops[log_slice.loop]
        copies = loop.get_copied_blocks(log_slice.phase) if log_slice.block == TEMPLATE else ()
        if not log_slice.phase:
            writer.write_copies(log_slice, actions, copies)
        writer.write(log_slice, actions, loop.get_block_index(log_slice.block))
        if log_slice.phase:
            writer.write_copies(log_slice, actions, copies)
    return Events(
        sizes=events.sizes,
        kinds=tuple(writer.kinds),
        order=tuple(writer.order),
        gradients=frozenset(writer.gradients),
        shards=tuple(writer.shards),
        buffers=group_buffers(writer.buffers),
        streams=events.streams,
    )


class _Writer:
    """A log under construction."""

    def __init__(self, loops: Sequence[Loop]) -> None:
        """Start empty."""
        self.loops = loops
        self.kinds: list[int] = []
        self.order: list[int] = []
        self.gradients: list[int] = []
        self.shards: list[tuple[int, int]] = []
        self.buffers: list[tuple[int, KernelBuffer]] = []
        self._outside: list[int] = []
        self._workspaces: list[int] = []
        self._starts: dict[tuple[int, int, int], int] = {}
        """The first storage that a block makes in a phase; the others follow it."""

    def write(self, log_slice: _LogSlice, actions: list[_Action], block_index: int) -> None:
        """Write the actions of a slice as those of one block."""
        self._starts[log_slice.loop, log_slice.phase, block_index] = len(self.kinds)
        for action in actions:
            if isinstance(action, _Release):
                self.order.append(~self._find_storage(action, log_slice.loop, block_index))
                continue
            number = len(self.kinds)
            if action.stays:
                self._workspaces.append(number)
            elif log_slice.loop == _OUTSIDE:
                self._outside.append(number)
            self.order.append(number)
            self.kinds.append(action.kind)
            if action.is_gradient:
                self.gradients.append(number)
            if action.shard is not None:
                self.shards.append((number, action.shard))
            if action.buffer is not None:
                self.buffers.append((number, action.buffer))

    def write_copies(
        self, log_slice: _LogSlice, actions: list[_Action], copies: Sequence[int]
    ) -> None:
        """Write a slice's actions for several blocks in a row.

        They make equally many storages, so that the numbers of the third are as far from those of
        the second as those are from the first's.
        """
        ends = [len(self.order)]
        for block_index in copies[:2]:
            self.write(log_slice, actions, block_index)
            ends.append(len(self.order))
        if len(copies) <= 2:  # noqa: PLR2004 - the two
            return
        first, latest = self.order[ends[0] : ends[1]], self.order[ends[1] :]
        steps = list(map(sub, latest, first))
        made = [action for action in actions if isinstance(action, _Allocation)]
        kinds = [action.kind for action in made]
        gradients = [place for place, action in enumerate(made) if action.is_gradient]
        shards = [(place, action.shard) for place, action in enumerate(made)]
        buffers = [(place, action.buffer) for place, action in enumerate(made)]
        for block_index in copies[2:]:
            start = len(self.kinds)
            self._starts[log_slice.loop, log_slice.phase, block_index] = start
            latest = list(map(add, latest, steps))
            self.order += latest
            self.kinds += kinds
            self.gradients += [start + place for place in gradients]
            self.shards += [(start + place, shard) for place, shard in shards if shard is not None]
            self.buffers += [(start + place, item) for place, item in buffers if item is not None]

    def _find_storage(self, release: _Release, loop: int, block_index: int) -> int:
        """Return the storage that is freed."""
        if release.loop == _OUTSIDE:
            return self._outside[release.position]
        block = (
            block_index + release.block
            if release.loop == loop
            else self.loops[release.loop].get_block_index(release.block)
        )
        start = self._starts[release.loop, release.phase, block]
        number = start + release.position
        for workspace in self._workspaces:
            number += start <= workspace <= number
        return number
