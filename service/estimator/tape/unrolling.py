"""Expansion of a log whose long repeats were recorded in part.

Repeats are recorded by their first and last blocks alone. Equal blocks come and go alike: what one
allocates, what it frees of its own and of its neighbours. Two blocks in the middle are compared
event by event; when they agree, and nothing reaches further than a neighbour, those that were left
out are theirs with other numbers. What ends tensors of all blocks between the loops, as the end of
autocast does, goes through them in turn. The result equals a log of every block, number by number.

Storages are numbered in the order in which they are made. So a part of the log makes consecutive
ones, and each block in the middle of a loop makes as many as the one before it.
"""

from collections.abc import Sequence
from itertools import groupby
from operator import add
from typing import NamedTuple

from service.estimator.tape.event_log import Events, group_buffers
from service.estimator.tape.kernel_buffers import KernelBuffer
from service.estimator.tape.loops import (
    LAST_LEADING,
    MIDDLE,
    OUTSIDE,
    RECORDED,
    TEMPLATE,
    Loop,
    Part,
    iter_parts,
)


class _Stretch(NamedTuple):
    """Events in a row that free storages of one block, or others."""

    loop: int
    block: int
    events: list[int]


def unroll_repeats(events: Events, loops: Sequence[Loop]) -> Events | None:
    """Return the log of all blocks.

    None where the blocks of a repeat are not alike.
    """
    if not loops:
        return events
    if any(len(loop.backward) != RECORDED + 1 for loop in loops):
        return None
    log = _ShortLog(events, loops)
    return _write_log(log) if log.is_regular() else None


class _ShortLog:
    """A log by its parts, with the part that makes each storage."""

    def __init__(self, events: Events, loops: Sequence[Loop]) -> None:
        """Divide a log."""
        self.events, self.loops = events, loops
        self.shards = dict(events.shards)
        self.buffers = {index: buffer for buffer, indices in events.buffers for index in indices}
        self.parts = list(iter_parts(events.order, loops, self.buffers))
        self.makers = [part for part in self.parts for _ in range(part.num_storages)]
        self.middle = {part[:3]: part for part in self.parts if part.block in MIDDLE}

    def is_regular(self) -> bool:
        """Return whether the middle blocks of each loop are alike.

        Nothing but a neighbour may reach into them either.
        """
        return all(map(self._frees_neighbours, self.parts)) and all(
            self._describe(self.middle[loop, phase, LAST_LEADING])
            == self._describe(self.middle[loop, phase, TEMPLATE])
            for loop in range(len(self.loops))
            for phase in range(2)
        )

    def list_stretches(self, part: Part) -> list[_Stretch]:
        """Return the stretches of a part between loops."""

        def get_block(event: int) -> tuple[int, int]:
            maker = None if event >= 0 else self.makers[~event]
            return (OUTSIDE, 0) if maker is None else (maker.loop, maker.block)

        order = self.events.order[part.begin : part.end]
        return [_Stretch(*block, list(group)) for block, group in groupby(order, get_block)]

    def find_phase(self, stretches: Sequence[_Stretch], place: int) -> int | None:
        """Return the phase in whose order blocks take turns around a stretch.

        None where they have none, or the two in the middle are not alike.
        """
        loop, block, _ = stretches[place]
        for phase, blocks in enumerate((range(RECORDED), range(RECORDED)[::-1])):
            start = max(place - blocks.index(block), 0)
            turns = stretches[start : start + RECORDED]
            if [turn[:2] for turn in turns] == [(loop, turn) for turn in blocks]:
                leading, template = [turn for turn in turns if turn.block in MIDDLE]
                is_alike = self._list_freed(leading.events) == self._list_freed(template.events)
                return phase if is_alike else None
        return None

    def _frees_neighbours(self, part: Part) -> bool:
        """Return whether a part frees no more of middle blocks than allowed.

        Blocks of their loop are not further than the next, between the loops all have their turns.
        """
        makers = self.makers
        freed = {makers[~event][:3] for event in self._get_order(part) if event < 0}
        of_loop = [block for loop, _, block in freed if loop == part.loop]
        if part.loop != OUTSIDE and any(abs(block - part.block) > 1 for block in of_loop):
            return False
        if not any(
            loop != part.loop and block in MIDDLE and loop != OUTSIDE for loop, _, block in freed
        ):
            return True
        stretches = self.list_stretches(part)
        return part.loop == OUTSIDE and all(
            stretch.loop == OUTSIDE
            or stretch.block not in MIDDLE
            or self.find_phase(stretches, place) is not None
            for place, stretch in enumerate(stretches)
        )

    def _get_order(self, part: Part) -> Sequence[int]:
        return self.events.order[part.begin : part.end]

    def _list_freed(self, releases: Sequence[int]) -> list[tuple[int, int]]:
        """Return what releases free, whatever block it is of."""
        makers = [(self.makers[~event], ~event) for event in releases]
        return [(maker.phase, maker.get_position(storage)) for maker, storage in makers]

    def _describe(self, part: Part) -> list[tuple[object, ...]]:
        """Return the events of a block, independent of its number."""
        events, makers = self.events, self.makers
        described: list[tuple[object, ...]] = []
        for event in self._get_order(part):
            if event >= 0:
                shard, buffer = self.shards.get(event), self.buffers.get(event)
                described.append((events.kinds[event], event in events.gradients, shard, buffer))
                continue
            maker = makers[~event]
            if maker.loop == part.loop:
                position = maker.get_position(~event)
                described.append((maker.phase, maker.block - part.block, position))
            else:
                described.append((event,))
        return described


def _write_log(log: _ShortLog) -> Events:
    """Return the log with the omitted blocks, numbered in order."""
    writer, events = _Writer(log), log.events
    for part in log.parts:
        writer.write(part)
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

    def __init__(self, log: _ShortLog) -> None:
        """Give the recorded storages their new numbers."""
        self.log = log
        self.kinds: list[int] = []
        self.order: list[int] = []
        self.gradients: list[int] = []
        self.shards: list[tuple[int, int]] = []
        self.buffers: list[tuple[int, KernelBuffer]] = []
        self._numbers: list[int] = []
        """The new number of each recorded storage."""
        reached = 0
        for part in log.parts:
            omitted = len(self._list_copies(part)) * part.num_storages
            start = reached + (omitted if not part.phase else 0)
            self._numbers += range(start, start + part.num_storages)
            reached += omitted + part.num_storages

    def write(self, part: Part) -> None:
        """Write a part, with the omitted blocks where they were left out."""
        order = self.log.events.order[part.begin : part.end]
        if part.loop == OUTSIDE:
            self._write_outside(part)
        elif part.block == TEMPLATE:
            self._write_turns(order, part.loop, part.phase)
        elif part.block == LAST_LEADING:
            self.order += [self._copy(event, part[:3], LAST_LEADING) for event in order]
        else:
            self.order += self._renumber(order)
        for _ in range(len(self._list_copies(part)) + 1):
            self._note_storages(part)

    def _write_outside(self, part: Part) -> None:
        stretches = self.log.list_stretches(part)
        for place, stretch in enumerate(stretches):
            is_template = stretch.loop != OUTSIDE and stretch.block == TEMPLATE
            phase = self.log.find_phase(stretches, place) if is_template else None
            if phase is None:
                self.order += self._renumber(stretch.events)
            else:
                self._write_turns(stretch.events, stretch.loop, phase)

    def _write_turns(self, template: Sequence[int], loop: int, phase: int) -> None:
        """Write the template and the omitted blocks, in a phase's order."""
        omitted, key = self.log.loops[loop].get_copied_blocks(phase), (loop, phase, TEMPLATE)
        last = self.log.loops[loop].get_block_index(TEMPLATE)
        last_block = [self._copy(event, key, last) for event in template]
        latest = [self._copy(event, key, omitted[0]) for event in template]
        steps = [self._get_step(event, loop) * (-1 if phase else 1) for event in template]
        self.order += last_block if phase else ()
        for _ in omitted:
            self.order += latest
            latest = list(map(add, latest, steps))
        self.order += () if phase else last_block

    def _copy(self, event: int, recorded: tuple[int, int, int], index: int) -> int:
        """Return a middle block's event as that of another block.

        What it frees of a block in the middle is of as many blocks before or after itself.
        """
        storage, (loop, _, block) = max(event, ~event), recorded
        maker = self.log.makers[storage]
        freed = index + maker.block - block
        number = self._numbers[storage]
        if maker.loop == loop and LAST_LEADING <= freed <= self.log.loops[loop].get_block_index(
            TEMPLATE
        ):
            leading = self.log.middle[loop, maker.phase, LAST_LEADING]
            step = self._count_storages(maker)
            number = self._numbers[leading.first] + step * (freed - LAST_LEADING)
            number += maker.get_position(storage)
        return number if event >= 0 else ~number

    def _get_step(self, event: int, loop: int) -> int:
        """Return what an event differs by from that of the block before."""
        maker = self.log.makers[max(event, ~event)]
        if maker.loop != loop:
            return 0
        return self._count_storages(maker) * (1 if event >= 0 else -1)

    def _count_storages(self, maker: Part) -> int:
        """Return by how much numbers grow from block to block."""
        count = self.log.middle[maker.loop, maker.phase, TEMPLATE].num_storages
        return -count if maker.phase else count

    def _note_storages(self, part: Part) -> None:
        """Note the kinds, gradients, shards and buffers of a block's storages."""
        log, start = self.log, len(self.kinds)
        self.kinds += log.events.kinds[part.first : part.first + part.num_storages]
        for number in range(part.first, part.first + part.num_storages):
            new = start + number - part.first
            if number in log.events.gradients:
                self.gradients.append(new)
            if number in log.shards:
                self.shards.append((new, log.shards[number]))
            if number in log.buffers:
                self.buffers.append((new, log.buffers[number]))

    def _renumber(self, order: Sequence[int]) -> list[int]:
        numbers = self._numbers
        return [numbers[event] if event >= 0 else ~numbers[~event] for event in order]

    def _list_copies(self, part: Part) -> Sequence[int]:
        """Return the indices of the omitted blocks that a part stands for."""
        if part.loop == OUTSIDE or part.block != TEMPLATE:
            return ()
        return self.log.loops[part.loop].get_copied_blocks(part.phase)
