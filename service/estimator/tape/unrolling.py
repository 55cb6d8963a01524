"""Writes out a log in which long repeats were recorded by their first and last blocks alone.

Equal blocks come and go alike: what one allocates, what it frees of its own and of its neighbours. Two blocks in the middle are
compared event by event; when they agree, and nothing reaches further than a neighbour, those that were left out are theirs
with other numbers. What is written out equals what a log of every block would be, number by number.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import chain, pairwise
from typing import NamedTuple

from service.estimator.tape.event_log import Events
from service.estimator.tape.loops import LAST_LEADING, RECORDED, TEMPLATE, Loop

_OUTSIDE = -1
"""In place of a loop's number: between the loops."""


class _Stretch(NamedTuple):
    """Events of one recorded block in forward (phase 0) or backward (1), or of what stands between loops."""

    loop: int
    phase: int
    block: int
    begin: int
    end: int


class _Made(NamedTuple):
    """An allocation: the kind of its size, whether it stays as a gradient, and the elements of a shard."""

    kind: int
    is_gradient: bool
    shard: int | None


class _Freed(NamedTuple):
    """A release of the storage ``which`` of a block: the block's number, or in the same loop how many blocks it is away."""

    loop: int
    phase: int
    block: int
    which: int


_Act = _Made | _Freed
_Log = Sequence[tuple[_Stretch, list[_Act]]]


def unrolled(events: Events, loops: Sequence[Loop]) -> Events | None:
    """Return the log of all blocks; None where blocks of a repeat are not alike."""
    if not loops:
        return events
    if any(len(loop.backward) != RECORDED + 1 for loop in loops):
        return None
    stretches = list(_stretches(loops, len(events.order)))
    acts = list(zip(stretches, _acts(events, stretches), strict=True))
    return _written_out(events, loops, acts) if _are_regular(acts, len(loops)) else None


def _stretches(loops: Sequence[Loop], length: int) -> Iterator[_Stretch]:
    """Yield the whole log in order, block by block."""
    blocks: list[_Stretch] = []
    for number, loop in enumerate(loops):
        blocks += [_Stretch(number, 0, turn, *ends) for turn, ends in enumerate(pairwise(loop.forward))]
        blocks += [_Stretch(number, 1, RECORDED - 1 - turn, *ends) for turn, ends in enumerate(pairwise(loop.backward))]
    blocks.sort(key=lambda block: block.begin)
    reached = 0
    for block in blocks:
        yield _Stretch(_OUTSIDE, 0, 0, reached, block.begin)
        yield block
        reached = block.end
    yield _Stretch(_OUTSIDE, 0, 0, reached, length)


def _acts(events: Events, stretches: Sequence[_Stretch]) -> Iterator[list[_Act]]:
    """Yield what each stretch does, in terms that do not depend on the number of its block."""
    homes: dict[int, _Freed] = {}
    made: dict[tuple[int, int, int], int] = defaultdict(int)
    shards = dict(events.shards)
    for loop, phase, block, begin, end in stretches:
        acts: list[_Act] = []
        for event in events.order[begin:end]:
            if event >= 0:
                homes[event] = _Freed(loop, phase, block, made[loop, phase, block])
                made[loop, phase, block] += 1
                acts.append(_Made(events.kinds[event], event in events.gradients, shards.get(event)))
            else:
                home = homes[~event]
                acts.append(home._replace(block=home.block - block) if home.loop == loop != _OUTSIDE else home)
        yield acts


def _are_regular(acts: _Log, num_loops: int) -> bool:
    """Tell whether the blocks in the middle of each loop are alike, and nothing but a neighbour reaches into them."""
    middle: dict[tuple[int, int, int], list[_Act]] = {}
    for stretch, done in acts:
        if stretch.block in {LAST_LEADING, TEMPLATE}:
            middle[stretch.loop, stretch.phase, stretch.block] = done
        for act in done:
            if not isinstance(act, _Freed) or act.loop == _OUTSIDE:
                continue
            if abs(act.block) > 1 if act.loop == stretch.loop else act.block in {LAST_LEADING, TEMPLATE}:
                return False
    pairs = ((loop, phase) for loop in range(num_loops) for phase in range(2))
    return all(middle[loop, phase, LAST_LEADING] == middle[loop, phase, TEMPLATE] for loop, phase in pairs)


def _written_out(events: Events, loops: Sequence[Loop], acts: _Log) -> Events:
    """Return the log with the blocks that were left out, numbered in order."""
    writer = _Writer(loops)
    for stretch, done in acts:
        if stretch.loop == _OUTSIDE:
            writer.write(stretch, done, 0)
            continue
        loop = loops[stretch.loop]
        copies = loop.copies(stretch.phase) if stretch.block == TEMPLATE else ()
        own = (loop.place(stretch.block),)
        for place in chain(own, copies) if stretch.phase else chain(copies, own):
            writer.write(stretch, done, place)
    return Events(
        sizes=events.sizes,
        kinds=tuple(writer.kinds),
        order=tuple(writer.order),
        gradients=frozenset(writer.gradients),
        shards=tuple(writer.shards),
    )


class _Writer:
    """A log under way."""

    def __init__(self, loops: Sequence[Loop]) -> None:
        """Start empty."""
        self.loops = loops
        self.kinds: list[int] = []
        self.order: list[int] = []
        self.gradients: list[int] = []
        self.shards: list[tuple[int, int]] = []
        self._made: dict[tuple[int, int, int], list[int]] = defaultdict(list)

    def write(self, stretch: _Stretch, acts: list[_Act], place: int) -> None:
        """Write what a stretch does as the block at a place of its loop."""
        own = self._made[stretch.loop, stretch.phase, place]
        for act in acts:
            if isinstance(act, _Freed):
                self.order.append(~self._storages(act, stretch.loop, place)[act.which])
                continue
            number = len(self.kinds)
            own.append(number)
            self.order.append(number)
            self.kinds.append(act.kind)
            if act.is_gradient:
                self.gradients.append(number)
            if act.shard is not None:
                self.shards.append((number, act.shard))

    def _storages(self, freed: _Freed, loop: int, place: int) -> list[int]:
        """Return what the block made whose storage is freed."""
        if freed.loop == _OUTSIDE:
            return self._made[freed.loop, freed.phase, 0]
        block = place + freed.block if freed.loop == loop else self.loops[freed.loop].place(freed.block)
        return self._made[freed.loop, freed.phase, block]
