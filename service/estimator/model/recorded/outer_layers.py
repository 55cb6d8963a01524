"""Layers beside a recording's stack, such as an encoder's.

A recording has their operations before the stack's, in one row. Weights say which are whose: a
layer goes from the first to the last of its own, and to where one tensor alone leads on.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from service.estimator.model.recorded.recorded_model import RecordedModel, get_variant
from service.estimator.model.weights.tensors import Linear, Weight
from service.estimator.tape.programs.program import (
    Instruction,
    LinearCall,
    Operation,
    Release,
    Straight,
    flatten,
)
from service.estimator.tape.programs.recorded_pass import RecordedPass

_DIGITS = frozenset("0123456789")
_STACKS = frozenset({"layer", "layers", "block", "blocks"})
"""Modules whose items FSDP makes units of (transformers' ``_no_split_modules``)."""


def find_layer_name(name: str) -> str | None:
    """Return the layer of a weight; None where it is in none.

    It is the first item that a number names, of a stack within another module.
    """
    parts = name.split(".")
    place = next((at for at, part in enumerate(parts) if set(part) & _DIGITS), 0)
    is_item = 1 < place < len(parts) - 1 and parts[place].isdecimal()
    return ".".join(parts[: place + 1]) if is_item and parts[place - 1] in _STACKS else None


@dataclass(frozen=True, slots=True, kw_only=True)
class OuterLayer:
    """One layer beside the stack, its weights under their full names."""

    name: str
    tensors: tuple[Weight, ...]
    projections: tuple[Linear, ...]

    def weights(self) -> Iterator[Weight]:
        """Yield the parameter tensors."""
        yield from self.tensors

    def linears(self) -> tuple[Linear, ...]:
        """Return the linear layers in order."""
        return self.projections


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Instructions in a row, of one layer or of none.

    A layer leads from the value ``x`` to ``output``; its instructions release what they make alone.
    """

    layer: OuterLayer | None
    instructions: tuple[Instruction, ...]
    x: int = 0
    output: int = 0
    produced: tuple[int, ...] = ()
    """Values that its instructions make."""
    read_storages: tuple[int, ...] = ()
    """Storages beside its input, made before it, that backward reads."""


def list_outer_layers(recorded: RecordedModel, unread: frozenset[str]) -> tuple[OuterLayer, ...]:
    """Return the layers beside the stack that a training step runs.

    There are none where no stack was found.
    """
    if not recorded.order:
        return ()
    names: dict[str, list[Weight]] = {}
    for weight in recorded.outer_weights:
        if weight.name not in unread and (layer := find_layer_name(weight.name)):
            names.setdefault(layer, []).append(weight)
    return tuple(
        OuterLayer(
            name=name,
            tensors=tuple(weights),
            projections=tuple(
                linear for linear in recorded.outer_linears if linear.name.startswith(f"{name}.")
            ),
        )
        for name, weights in names.items()
    )


def divides_steps(recorded: RecordedModel, layers: Sequence[OuterLayer]) -> bool:
    """Return whether layers are told apart in every training pass."""
    if not layers:
        return True
    steps = [part for name, part in recorded.passes.items() if "/" not in get_variant(name)]
    frozen = [part for name, part in recorded.passes.items() if "/frozen" in name]
    return all(divide_prologue(part, layers) is not None for part in (*steps, *frozen))


def divide_prologue(part: RecordedPass, layers: Sequence[OuterLayer]) -> tuple[Stretch, ...] | None:
    """Return the instructions before the stack, layer by layer.

    None where they are not told apart.
    """
    try:
        return _Prologue(part, layers).divide()
    except (LookupError, ValueError):
        return None


class _Prologue:
    """Instructions before the stack, and who reads which value."""

    def __init__(self, part: RecordedPass, layers: Sequence[OuterLayer]) -> None:
        self.part, self.layers, self.instructions = part, layers, part.prologue
        self.producers: dict[int, int] = {}
        self.last_reads: dict[int, int] = {}
        for place, instruction in enumerate(self.instructions):
            for straight in flatten([instruction]):
                self.last_reads |= dict.fromkeys(_list_reads(straight), place)
                for value in _list_outputs(straight):
                    self.producers.setdefault(value, place)
        after = [*flatten((*part.epilogue, *part.tail))]
        read_later = [value for straight in after for value in _list_reads(straight)]
        read_later += [part.x, *(value for inputs in part.block_inputs for value in inputs)]
        self.last_reads |= dict.fromkeys(read_later, len(self.instructions))
        self.crossings = self._count_crossings()

    def divide(self) -> tuple[Stretch, ...]:
        """Return the stretches of layers and of what is around them.

        Raises LookupError or ValueError for what is no row of layers.
        """
        spans = [self._find_span(layer) for layer in self.layers]
        # A stack of one layer does not say where it ends.
        if len(spans) == 1 or spans != sorted(spans):
            raise LookupError
        begins: list[tuple[int, int]] = []
        for place, (first, _) in enumerate(spans):
            lowest = spans[place - 1][1] + 1 if place else self._find_begin(first)
            begins.append(self._find_border(lowest, first))
        end = self._find_end(begins[-2][0], begins[-1][0])
        borders = [*begins, (end, self._get_crossing(end))]
        stretches = [Stretch(layer=None, instructions=self.instructions[: begins[0][0]])]
        for layer, (start, x), (stop, output) in zip(
            self.layers, borders, borders[1:], strict=False
        ):
            stretches += self._cut(layer, start, stop, x, output)
        return (*stretches, Stretch(layer=None, instructions=self.instructions[end:]))

    def _find_span(self, layer: OuterLayer) -> tuple[int, int]:
        """Return the first and the last instruction with a layer's weights."""
        places = [
            place
            for place, instruction in enumerate(self.instructions)
            if any(name.startswith(f"{layer.name}.") for name in _list_weights([instruction]))
        ]
        return places[0], places[-1]

    def _find_begin(self, first: int) -> int:
        """Return the place behind the last weights before the first layer."""
        places = [p for p in range(first) if any(_list_weights([self.instructions[p]]))]
        return max(places, default=-1) + 1

    def _find_border(self, lowest: int, highest: int) -> tuple[int, int]:
        """Return the last place over which one value leads, and it."""
        for place in range(highest, lowest - 1, -1):
            if self.crossings[place] == 1:
                return place, self._get_crossing(place)
        raise LookupError

    def _find_end(self, previous: int, begin: int) -> int:
        """Return where the last layer ends.

        It runs as many operations as the one before.
        """
        count, end = self._count_operations(previous, begin), begin
        while count:
            count -= not isinstance(self.instructions[end], Release)
            end += 1
        while end < len(self.instructions) and isinstance(self.instructions[end], Release):
            end += 1
        return end

    def _count_operations(self, start: int, stop: int) -> int:
        return sum(not isinstance(part, Release) for part in self.instructions[start:stop])

    def _count_crossings(self) -> list[int]:
        """Return how many values lead over each place."""
        changes = [0] * (len(self.instructions) + 2)
        for value, producer in self.producers.items():
            last = self.last_reads.get(value, -1)
            if last > producer:
                changes[producer + 1] += 1
                changes[last + 1] -= 1
        return [*accumulate(changes)]

    def _get_crossing(self, place: int) -> int:
        """Return the one value that leads over a place."""
        (value,) = [
            value
            for value, producer in self.producers.items()
            if producer < place <= self.last_reads.get(value, -1)
        ]
        return value

    def _cut(
        self, layer: OuterLayer, start: int, stop: int, x: int, output: int
    ) -> Iterator[Stretch]:
        """Yield a layer, and the releases of what is not its own."""
        instructions, values = self.instructions[start:stop], self.part.values
        if any(not name.startswith(f"{layer.name}.") for name in _list_weights(instructions)):
            raise LookupError
        straight = [*flatten(instructions)]
        produced = [value for part in straight for value in _list_outputs(part)]
        allocated = {
            allocation.storage
            for part in straight
            if isinstance(part, Operation)
            for allocation in part.allocated
        } | {values[part.output].storage for part in straight if isinstance(part, LinearCall)}
        inner = allocated - {values[output].storage}
        is_other = [
            isinstance(part, Release) and part.storage not in inner for part in instructions
        ]
        read = {
            storage
            for part in straight
            if isinstance(part, Operation)
            for node in part.nodes
            for storage in (*node.saved_before, *node.saved_after)
            if storage is not None
        }
        yield Stretch(
            layer=layer,
            instructions=tuple(
                part for part, other in zip(instructions, is_other, strict=True) if not other
            ),
            x=x,
            output=output,
            produced=tuple(dict.fromkeys(produced)),
            read_storages=tuple(sorted(read - allocated - {values[x].storage})),
        )
        yield Stretch(
            layer=None,
            instructions=tuple(
                part for part, other in zip(instructions, is_other, strict=True) if other
            ),
        )


def _list_weights(instructions: Sequence[Instruction]) -> Iterator[str]:
    """Yield the names of weights and linear layers that instructions read."""
    for part in flatten(instructions):
        if isinstance(part, LinearCall):
            yield f"{part.layer}.weight"
        elif isinstance(part, Operation):
            for node in part.nodes:
                yield from (g.parameter for g in node.gradients if g.parameter is not None)


def _list_reads(part: Straight) -> Iterator[int]:
    """Yield the values that an instruction hands gradients to or multiplies."""
    if isinstance(part, LinearCall):
        yield part.x
    elif isinstance(part, Operation):
        for node in part.nodes:
            yield from (g.value for g in node.gradients if g.value is not None)


def _list_outputs(part: Straight) -> Iterator[int]:
    """Yield the values with gradients that an instruction makes."""
    if isinstance(part, LinearCall):
        yield part.output
    elif isinstance(part, Operation):
        for node in part.nodes:
            yield from (value for value in node.outputs if value is not None)
