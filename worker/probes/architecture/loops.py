"""Loops over parts of a sequence, found in passes of several lengths.

A pass over more chunks runs the same steps more often, and a turn those of the one before with
other numbers. Both passes are followed side by side, so that what is found is what they ran.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from worker.probes.architecture.listening.raw_pass import RawPass
from worker.probes.architecture.references import (
    follow_turn,
    list_step_sizes,
    list_step_storages,
    list_values,
    rename,
    sign_shape,
)
from worker.probes.architecture.steps import LoopStep, Step


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """A pass and its steps."""

    raw: RawPass
    steps: list[Step]


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """Steps of a shorter pass that longer ones repeat.

    They are those from ``start`` to before ``stop``. ``values`` and ``storages`` are what is
    carried: by its number, that of what a turn makes in its place. ``produced`` and
    ``produced_storages`` are all numbers that a turn makes.
    """

    start: int
    stop: int
    values: Mapping[int, int]
    storages: Mapping[int, int]
    produced: frozenset[int]
    produced_storages: frozenset[int]

    @property
    def length(self) -> int:
        """Return the steps of a turn."""
        return self.stop - self.start


def find_loops(short: Heard, long: Heard) -> list[Loop] | None:
    """Return the loops by which two passes differ.

    None where they differ by anything else.
    """
    walk, i = _Walk(short=short, long=long), 0
    while i < len(short.steps) or walk.place < len(long.steps):
        if i < len(short.steps) and walk.follow(i):
            i += 1
            continue
        loop = walk.find_loop(i)
        if loop is None or not walk.take_turns(loop):
            return None
    return walk.loops


def fold(short: Heard, loops: Sequence[Loop], long: Heard) -> Heard | None:
    """Return a pass in the steps of a shorter one.

    Its numbers are those of the other, its loops run once.     None where it runs other steps.
    """
    walk, ends = _Walk(short=short, long=long), {loop.stop: loop for loop in loops}
    steps: list[Step] = []
    starts = {loop.start for loop in loops}
    for i in range(len(short.steps)):
        if i in ends:
            steps.append(_end(ends[i], walk.take_turns(ends[i])))
        if i in starts:
            steps.append(LoopStep(entered=True))
        if walk.place == len(long.steps) or not walk.follow(i):
            return None
        steps.append(walk.steps[-1])
    if len(short.steps) in ends or walk.place < len(long.steps):
        return None
    return Heard(raw=walk.renumber(), steps=steps)


def _end(loop: Loop, more: int) -> LoopStep:
    return LoopStep(
        entered=False,
        turns=1 + more,
        values=tuple(sorted(loop.values.items())),
        storages=tuple(sorted(loop.storages.items())),
        produced=tuple(sorted(loop.produced)),
    )


@dataclass(slots=True)
class _Names:
    """Numbers of the shorter pass by those of the longer one."""

    names: dict[int, int] = field(default_factory=dict)
    seen: set[int] = field(default_factory=set)
    ended: set[int] = field(default_factory=set)
    """Numbers of the shorter pass that a loop has let stand for something else."""
    first: dict[int, int] = field(default_factory=dict)
    """By number of the shorter pass, that of what it first stood for."""

    def copy(self) -> "_Names":
        """Return what can be gone back to."""
        return _Names(dict(self.names), set(self.seen), set(self.ended), dict(self.first))

    def compare(self, longer: Sequence[int], shorter: Sequence[int]) -> dict[int, int] | None:
        """Return the new pairs of numbers that stand for the same.

        None where some do not.
        """
        new: dict[int, int] = {}
        for their, our in zip(longer, shorter, strict=True):
            mapped = self.names.get(their, new.get(their))
            if our in self.ended or (mapped is not None and mapped != our):
                return None
            if mapped is None:
                if our in self.seen or our in new.values():
                    return None
                new[their] = our
        return new

    def learn(self, new: Mapping[int, int]) -> None:
        """Keep new pairs."""
        self.names |= new
        self.seen.update(new.values())
        for their, our in new.items():
            self.first.setdefault(our, their)

    def carry(self, carried: Mapping[int, int], produced: frozenset[int]) -> None:
        """Let what a turn made take the place of what it carries."""
        places = {there: place for place, there in carried.items()}
        self.names = {
            their: places.get(our, our)
            for their, our in self.names.items()
            if our in places or (our not in carried and our not in produced)
        }
        self.seen -= produced


@dataclass(slots=True, kw_only=True)
class _Walk:
    """A longer pass followed along a shorter one."""

    short: Heard
    long: Heard
    place: int = 0
    values: _Names = field(default_factory=_Names)
    storages: _Names = field(default_factory=_Names)
    steps: list[Step] = field(default_factory=list)
    """Those of the longer pass so far, in numbers of the shorter."""
    loops: list[Loop] = field(default_factory=list)
    short_shapes: list[object] = field(init=False)
    long_shapes: list[object] = field(init=False)

    def __post_init__(self) -> None:
        """Know the shapes of all steps."""
        self.short_shapes = [sign_shape(step) for step in self.short.steps]
        self.long_shapes = [sign_shape(step) for step in self.long.steps]

    def follow(self, i: int) -> bool:
        """Return whether the next step is that of the shorter pass.

        It goes on if so.
        """
        if not self._pair(i):
            return False
        names, storages = self.values.names, self.storages.names
        longer = self.long.steps[self.place]
        self.steps.append(rename(longer, names.__getitem__, storages.__getitem__))
        self.place += 1
        return True

    def _pair(self, i: int) -> bool:
        """Return whether both are at the same step.

        Its numbers are learned if so.
        """
        place = self.place
        if place == len(self.long.steps) or self.short_shapes[i] != self.long_shapes[place]:
            return False
        shorter, longer = self.short.steps[i], self.long.steps[place]
        values = self.values.compare(list_values(longer), list_values(shorter))
        storages = self.storages.compare(list_step_storages(longer), list_step_storages(shorter))
        if values is None or storages is None:
            return False
        self.values.learn(values)
        self.storages.learn(storages)
        return True

    def find_loop(self, stop: int) -> Loop | None:
        """Return the loop that ends before step ``stop``, if any."""
        place, shapes = self.place, self.long_shapes
        longest = min(place, stop, len(shapes) - place)
        for length in range(1, longest + 1):
            before, after = place - length, place + length
            if shapes[before:place] == shapes[place:after]:
                loop = self._make_loop(length, stop)
                if loop is not None:
                    self.loops.append(loop)
                    return loop
        return None

    def _make_loop(self, length: int, stop: int) -> Loop | None:
        """Return the loop whose turns have so many steps."""
        place, steps, raw = self.place, self.long.steps, self.long.raw
        turn, following = steps[place - length : place], steps[place : place + length]
        if any(
            list_step_sizes(a) != list_step_sizes(b) for a, b in zip(turn, following, strict=True)
        ):
            return None
        earlier = steps[: place - length]
        values, storages = (
            follow_turn(
                *(
                    [n for step in part for n in numbers(step)]
                    for part in (turn, following, earlier)
                )
            )
            for numbers in (list_values, list_step_storages)
        )
        if (
            values is None
            or storages is None
            or any(raw.values[a].numel != raw.values[b].numel for a, b in values.following.items())
            or any(raw.sizes[a] != raw.sizes[b] for a, b in storages.following.items())
        ):
            return None
        our, shorter = self.values.names.__getitem__, self.storages.names.__getitem__
        return Loop(
            start=stop - length,
            stop=stop,
            values={our(a): our(b) for a, b in values.carried.items()},
            storages={shorter(a): shorter(b) for a, b in storages.carried.items()},
            produced=frozenset(map(our, values.produced)),
            produced_storages=frozenset(map(shorter, storages.produced)),
        )

    def take_turns(self, loop: Loop) -> int:
        """Go through the further turns of a loop, and count them."""
        turns = 0
        base = self.place - loop.length
        while True:
            before_turn = self.values.copy(), self.storages.copy(), self.place
            self.values.carry(loop.values, loop.produced)
            self.storages.carry(loop.storages, loop.produced_storages)
            if not self._take_turn(loop, base):
                self.values, self.storages, self.place = before_turn
                break
            turns += 1
        self.values.ended |= loop.values.keys() - loop.values.values()
        self.storages.ended |= loop.storages.keys() - loop.storages.values()
        return turns

    def _take_turn(self, loop: Loop, base: int) -> bool:
        for index in range(loop.length):
            place = self.place
            if not self._pair(loop.start + index):
                return False
            if not self._is_as_large(self.long.steps[place], self.long.steps[base + index]):
                return False
            self.place += 1
        return True

    def _is_as_large(self, step: Step, first: Step) -> bool:
        """Return whether a step takes what that of the first turn took."""
        raw = self.long.raw
        return (
            list_step_sizes(step) == list_step_sizes(first)
            and [raw.values[n].numel for n in list_values(step)]
            == [raw.values[n].numel for n in list_values(first)]
            and [raw.sizes[n] for n in list_step_storages(step)]
            == [raw.sizes[n] for n in list_step_storages(first)]
        )

    def renumber(self) -> RawPass:
        """Return the longer pass with the shorter one's numbers."""
        shorter, longer = self.short.raw, self.long.raw
        values, storages = self.values.first, self.storages.first
        return replace(
            longer,
            values=[
                replace(longer.values[values[n]], storage=value.storage) if n in values else value
                for n, value in enumerate(shorter.values)
            ],
            sizes=[
                longer.sizes[storages[n]] if n in storages else size
                for n, size in enumerate(shorter.sizes)
            ],
            inputs=shorter.inputs,
            returned=shorter.returned,
        )
