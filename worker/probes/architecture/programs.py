"""Passes as programs: blocks that repeat, and what stands around them."""

from collections.abc import Sequence
from dataclasses import dataclass

from service.estimator.tape.programs.program import Instruction, Program
from service.estimator.tape.programs.recorded_pass import RecordedPass
from worker.probes.architecture.layers import (
    Slice,
    find_layers,
    is_tensor,
    list_mentions,
    list_outputs,
    list_reads,
    list_storages,
    slice_layers,
)
from worker.probes.architecture.lowering import Numbers, Passes, lower_steps
from worker.probes.architecture.steps import (
    BoundaryStep,
    LinearStep,
    OperationStep,
    ReleaseStep,
    Step,
)


def make_block(passes: Passes, part: Slice, prefix: str) -> tuple[Program, tuple[int, ...]]:
    """Return the program of a layer, and what it reads of outside."""
    numbers = Numbers(passes=passes, prefix=f"{prefix}{part.index}.")
    steps = passes.steps[0]
    allocated = list_storages(passes, part.steps)
    inner = {value for place in part.steps for value in list_outputs(steps[place])}
    outer = list(
        dict.fromkeys(
            value
            for place in part.steps
            for value in list_mentions(steps[place])
            if value not in inner and value != part.x and is_tensor(passes, value)
        )
    )
    numbers.get_value(part.x)
    for value in outer:
        numbers.get_value(value)
    columns = [
        [column[place] for column in passes.steps]
        for place in part.steps
        if not (isinstance(step := steps[place], ReleaseStep) and step.storage not in allocated)
    ]
    instructions = lower_steps(numbers, columns)
    program = Program(
        values=tuple(numbers.specs),
        num_storages=numbers.num_storages,
        inputs=1 + len(outer),
        instructions=tuple(instructions),
        output=numbers.get_value(part.output),
    )
    return program, tuple(outer)


_VIEWS = frozenset({"aten.alias.default", "aten.slice.Tensor"})
"""Operators that choose the positions that get logits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoweredPass:
    """A pass as programs, and the kinds of its layers."""

    recorded: RecordedPass
    kinds: tuple[int, ...]
    prefix: str | None
    """Name before the numbers of the layers, None where no layers repeat."""
    difference: int = 0
    """Bytes by which its peak missed that of a plain pass."""


Block = tuple[Program, tuple[int, ...]]
"""A layer's program, and the values of the model that it reads beside its input."""


_STATE = -1
"""Mark of a value that is older than the pass."""


def _list_shared(passes: Passes) -> set[int]:
    """Return the values of a pass: its inputs, and what steps make."""
    outputs = {value for step in passes.steps[0] for value in list_outputs(step)}
    return outputs | set(passes.passes[0].inputs.values())


def lower_pass(passes: Passes, head: str | None) -> LoweredPass:
    """Return a pass as programs; ``head`` names the output layer."""
    prefix, places = find_layers(passes)
    slices, covered = slice_layers(passes, places)
    shared = _list_shared(passes)
    blocks: dict[Block, Block] = {}
    kinds: list[int] = []
    for part in slices:
        program, outer = make_block(passes, part, prefix)
        # Each layer reads states of its own, which lie in the cache: they make no other kind.
        kind = (program, tuple(value if value in shared else _STATE for value in outer))
        blocks.setdefault(kind, (program, outer))
        kinds.append(list(blocks).index(kind))
    surroundings = _Surroundings(
        passes=passes, numbers=Numbers(passes=passes), slices=slices, covered=covered
    )
    recorded = surroundings.lower(list(blocks.values()), head)
    return LoweredPass(recorded=recorded, kinds=tuple(kinds), prefix=prefix)


def lower_flat(passes: Passes, head: str | None) -> LoweredPass:
    """Return a pass as one program without layers that repeat."""
    numbers, names, steps = Numbers(passes=passes), passes.passes[0], passes.steps[0]
    inputs = _number_inputs(numbers)
    columns = list(zip(*passes.steps, strict=True))
    calls = [
        place
        for place, step in enumerate(steps)
        if isinstance(step, LinearStep) and step.layer == head
    ]
    end = _begin_head(steps, calls[-1]) if calls else len(steps)
    loss = names.returned.get("loss")
    prologue = tuple(lower_steps(numbers, columns[:end]))
    result = next(iter(names.returned.values())) if loss is None else loss
    hidden = numbers.get_value(list_reads(steps[end])[0] if calls else result)
    tail = tuple(lower_steps(numbers, columns[end:]))
    recorded = RecordedPass(
        inputs=inputs,
        prologue=prologue,
        x=hidden,
        holds_x=False,
        layer_args=(),
        blocks=(),
        block_inputs=(),
        output=hidden,
        epilogue=(),
        hidden=hidden,
        tail=tail,
        loss=None if loss is None else numbers.get_value(loss),
        returned=_number_returned(numbers),
        values=tuple(numbers.specs),
        num_storages=numbers.num_storages,
    )
    return LoweredPass(recorded=recorded, kinds=(), prefix=None)


def _number_inputs(numbers: Numbers) -> tuple[int, ...]:
    """Return the values that the model is called on."""
    values = numbers.passes.passes[0].inputs.values()
    return tuple(map(numbers.get_value, dict.fromkeys(values)))


def _number_returned(numbers: Numbers) -> tuple[int, ...]:
    """Return the values that the model returns beside its loss."""
    returned = numbers.passes.passes[0].returned
    return tuple(numbers.get_value(value) for name, value in returned.items() if name != "loss")


def _begin_head(steps: Sequence[Step], place: int) -> int:
    """Return where the views that the output layer reads begin."""
    while isinstance(step := steps[place - 1], OperationStep) and step.operator in _VIEWS:
        place -= 1
    return place


@dataclass(frozen=True, slots=True, kw_only=True)
class _Surroundings:
    """Steps before and after the layers, in the model's own frame.

    ``covered`` are the places of the layers' steps.
    """

    passes: Passes
    numbers: Numbers
    slices: Sequence[Slice]
    covered: set[int]

    def lower(self, blocks: Sequence[Block], head: str | None) -> RecordedPass:
        """Return the pass, its values numbered in the order of their use."""
        numbers = self.numbers
        first, last = self.slices[0], self.slices[-1]
        inputs = _number_inputs(numbers)
        prologue = self._lower_steps(range(first.steps[0]))
        x, output = numbers.get_value(first.x), numbers.get_value(last.output)
        head_place, end = self._find_head(head), last.steps[-1] + 1
        epilogue = self._lower_steps([*self._list_late_releases(), *range(end, head_place)])
        return RecordedPass(
            inputs=inputs,
            prologue=prologue,
            x=x,
            holds_x=self._holds_input(),
            layer_args=self._list_arguments(),
            blocks=tuple(program for program, _ in blocks),
            block_inputs=tuple(tuple(map(numbers.get_value, outer)) for _, outer in blocks),
            output=output,
            epilogue=epilogue,
            hidden=self._get_hidden(head_place, output),
            tail=self._lower_steps(range(head_place, len(self.passes.steps[0]))),
            loss=self._get_loss(),
            returned=_number_returned(numbers),
            values=tuple(numbers.specs),
            num_storages=numbers.num_storages,
        )

    def _get_loss(self) -> int | None:
        value = self.passes.passes[0].returned.get("loss")
        return None if value is None else self.numbers.get_value(value)

    def _lower_steps(self, places: Sequence[int]) -> tuple[Instruction, ...]:
        """Return the instructions of steps outside of the layers.

        Releases of what layers make and take are theirs.
        """
        steps, inner = self.passes.steps[0], self._list_inner()
        columns = [
            [column[place] for column in self.passes.steps]
            for place in places
            if not (isinstance(step := steps[place], ReleaseStep) and step.storage in inner)
        ]
        return tuple(lower_steps(self.numbers, columns))

    def _list_inner(self) -> set[int | None]:
        """Return the storages that layers make or are called on."""
        values = self.passes.passes[0].values
        inner = list_storages(self.passes, self.covered)
        inner.discard(values[self.slices[-1].output].storage)
        return inner | {values[self.slices[0].x].storage}

    def _list_late_releases(self) -> list[int]:
        """Return the releases during the layers of what is not theirs.

        They come after them.
        """
        steps, inner = self.passes.steps[0], self._list_inner()
        return [
            place
            for place in sorted(self.covered)
            if isinstance(step := steps[place], ReleaseStep) and step.storage not in inner
        ]

    def _find_head(self, head: str | None) -> int:
        """Return the place of the output layer, or the end.

        The view of all positions that it reads is a part of it.
        """
        steps = self.passes.steps[0]
        end = self.slices[-1].steps[-1] + 1
        places = (
            place
            for place in range(end, len(steps))
            if isinstance(step := steps[place], LinearStep) and step.layer == head
        )
        place = next(places, len(steps))
        return place if place == len(steps) else _begin_head(steps, place)

    def _get_hidden(self, head_place: int, output: int) -> int:
        steps = self.passes.steps[0]
        step = steps[head_place] if head_place < len(steps) else None
        if isinstance(step, LinearStep):
            return self.numbers.get_value(step.x)
        return output if step is None else self.numbers.get_value(list_reads(step)[0])

    def _holds_input(self) -> bool:
        """Return whether the first input's name outlives the layers."""
        steps = self.passes.steps[0]
        storage = self.passes.passes[0].values[self.slices[0].x].storage
        return not any(
            isinstance(step := steps[place], ReleaseStep) and step.storage == storage
            for place in self.covered
        )

    def _list_arguments(self) -> tuple[int, ...]:
        first = self.slices[0]
        entry = self.passes.steps[0][first.steps[0]]
        assert isinstance(entry, BoundaryStep)  # noqa: S101 - found as one
        return tuple(
            self.numbers.get_value(value)
            for value in dict.fromkeys(entry.inputs)
            if value != first.x and is_tensor(self.passes, value)
        )
