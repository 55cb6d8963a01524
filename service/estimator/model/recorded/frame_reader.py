"""Instructions of a recorded program from JSON values."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from service.estimator.model.recorded.json_reader import MAX_SIZE, Reader
from service.estimator.tape.programs.program import (
    Action,
    Allocation,
    BackwardEvent,
    CacheUpdate,
    Embedded,
    Gradient,
    GraphNode,
    Instruction,
    Leaf,
    LinearCall,
    Loop,
    Operation,
    Release,
    Source,
    Straight,
    ValueSpec,
)
from service.estimator.tape.programs.stepped_sizes import AnySize
from service.estimator.tape.sizes import Size
from service.estimator.values.dtypes import DType

_COUNTED = 6
"""Parts of an operation whose bytes were counted; one less where they were not."""


@dataclass(frozen=True, slots=True)
class FrameReader:
    """Numbers that a program may name."""

    sizes: Sequence[AnySize]
    num_values: int = 0
    num_storages: int = 0
    known: dict[tuple[str, int, int], Straight] = field(default_factory=dict)
    """Instructions of the document by what they say, and by how much they may name: of ten of a
    document nine are like another.
    """
    known_values: dict[tuple[str, int], ValueSpec] = field(default_factory=dict)
    """The same of values."""

    def _size(self, part: Reader) -> AnySize:
        return self.sizes[part.read_index(len(self.sizes))]

    def _plain_size(self, part: Reader) -> Size:
        size = self._size(part)
        return size if isinstance(size, tuple) else size.smooth()

    def value(self, part: Reader) -> int:
        """Return the number of a value."""
        return part.read_index(self.num_values)

    def values(self, part: Reader) -> tuple[int, ...]:
        """Return the numbers of values."""
        return part.read_indices(self.num_values)

    def _sizes(self, part: Reader) -> tuple[AnySize, ...]:
        return tuple(self.sizes[index] for index in part.read_indices(len(self.sizes)))

    def _storages(self, part: Reader) -> tuple[int | None, ...]:
        return part.read_optional_indices(self.num_storages)

    def read_values(self, part: Reader) -> tuple[ValueSpec, ...]:
        """Return what is known of each value."""
        return tuple(self._read_value(item) for item in part.items())

    def _read_value(self, part: Reader) -> ValueSpec:
        key = repr(part.value), self.num_storages
        if key not in self.known_values:
            numel, dtype, storage = part.items(3)
            self.known_values[key] = ValueSpec(
                numel=self._size(numel),
                dtype=None if dtype.value is None else dtype.read_choice(DType),
                storage=storage.read_optional_index(self.num_storages),
            )
        return self.known_values[key]

    def read_instructions(self, part: Reader) -> tuple[Instruction, ...]:
        """Return straight instructions and loops."""
        return tuple(
            self._read_loop(item) if _read_kind(item) == "loop" else self._read_instruction(item)
            for item in part.items()
        )

    def _read_loop(self, part: Reader) -> Loop:
        _, turns, values, storages, produced, instructions = part.items(6)
        return Loop(
            turns=self._size(turns),
            values=tuple(self._read_pair(item, self.num_values) for item in values.items()),
            storages=tuple(self._read_pair(item, self.num_storages) for item in storages.items()),
            produced=self.values(produced),
            instructions=tuple(self._read_instruction(item) for item in instructions.items()),
        )

    def _read_pair(self, part: Reader, count: int) -> tuple[int, int]:
        place, produced = part.items(2)
        return place.read_index(count), produced.read_index(count)

    def _read_instruction(self, part: Reader) -> Straight:
        key = repr(part.value), self.num_values, self.num_storages
        if key not in self.known:
            self.known[key] = self._read_new_instruction(part)
        return self.known[key]

    def _read_new_instruction(self, part: Reader) -> Straight:
        kind = _read_kind(part)
        if kind == "release":
            return Release(storage=part.items(2)[1].read_index(self.num_storages))
        if kind == "cache":
            _, cached, joined, window = part.items(4)
            return CacheUpdate(
                parts=self.values(cached),
                joined=self.values(joined),
                window=window.read_optional_index(MAX_SIZE),
            )
        if kind == "embedded":
            return Embedded(value=self.value(part.items(2)[1]))
        if kind == "leaf":
            return Leaf(value=self.value(part.items(2)[1]))
        if kind == "linear":
            _, layer, x, output = part.items(4)
            return LinearCall(layer=layer.read_text(), x=self.value(x), output=self.value(output))
        if kind != "operation":
            raise part.fail("an operation, a linear layer, embeddings or a release")
        counted = len(part.read_list()) == _COUNTED
        _, operator, allocated, scratch, nodes, *moved = part.items(_COUNTED - (not counted))
        return Operation(
            operator=operator.read_text(),
            allocated=tuple(self._read_allocation(item) for item in allocated.items()),
            scratch=self._sizes(scratch),
            nodes=tuple(self._read_node(item) for item in nodes.items()),
            moved=self._plain_size(moved[0]) if moved else None,
        )

    def _read_allocation(self, part: Reader) -> Allocation:
        storage, size = part.items(2)
        return Allocation(storage=storage.read_index(self.num_storages), size=self._size(size))

    def _read_node(self, part: Reader) -> GraphNode:
        name, outputs, before, after, events, gradients = part.items(6)
        numbers = outputs.read_optional_indices(self.num_values)
        read_events = tuple(self._read_event(item) for item in events.items())
        allocated = sum(event.action is Action.ALLOCATE for event in read_events)
        return GraphNode(
            name=name.read_text(),
            outputs=numbers,
            saved_before=self._storages(before),
            saved_after=self._storages(after),
            events=_check_events(read_events, events),
            gradients=tuple(
                self._read_gradient(item, allocated, len(numbers)) for item in gradients.items()
            ),
        )

    def _read_event(self, part: Reader) -> BackwardEvent:
        action, index, size = part.items(3)
        return BackwardEvent(
            action=action.read_choice(Action), index=index.read_count(), size=self._size(size)
        )

    def _read_gradient(self, part: Reader, allocated: int, outputs: int) -> Gradient:
        value, parameter, source, index, is_view = part.items(5)
        origin = source.read_choice(Source)
        return Gradient(
            value=value.read_optional_index(self.num_values),
            parameter=None if parameter.value is None else parameter.read_text(),
            source=origin,
            index=index.read_index(allocated if origin is Source.ALLOCATED else outputs),
            is_view=is_view.read_flag(),
        )


def _read_kind(part: Reader) -> object:
    parts = part.read_list()
    return parts[0] if parts else None


def _check_events(events: tuple[BackwardEvent, ...], part: Reader) -> tuple[BackwardEvent, ...]:
    """Return the events of a backward, each storage made and freed once."""
    live: set[int] = set()
    allocated = 0
    for event in events:
        if event.action is Action.ALLOCATE:
            if event.index != allocated:
                raise part.fail("allocations numbered from 0")
            live.add(allocated)
            allocated += 1
        elif event.action is Action.FREE:
            if event.index not in live:
                raise part.fail("releases of what was allocated")
            live.discard(event.index)
    return events
