"""Recordings from JSON values.

A document may come from anyone: every number that it names must be there, and what a backward frees
must be what it made.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from service.estimator.model.recorded.encoding import FORMAT, compute_digest
from service.estimator.model.recorded.json_reader import MAX_SIZE, Reader
from service.estimator.model.recorded.layer_reader import read_layer, read_plan
from service.estimator.model.recorded.recorded_model import RecordedModel, RecordedSpec
from service.estimator.tape.programs.program import (
    Action,
    Allocation,
    BackwardEvent,
    CacheUpdate,
    Embedded,
    Gradient,
    GraphNode,
    Instruction,
    LinearCall,
    Loop,
    Operation,
    Program,
    Release,
    Source,
    Straight,
    ValueSpec,
)
from service.estimator.tape.programs.recorded_pass import Domain, RecordedPass
from service.estimator.tape.programs.stepped_sizes import AnySize
from service.estimator.tape.sizes import Size
from service.estimator.values.dtypes import DType
from service.estimator.values.errors import InvalidInputError


def _read_optional(top: Reader, name: str, default: int) -> int:
    """Return a count that is written where it is not its default."""
    return top.get(name).read_count() if name in dict(top.entries()) else default


def _read_limits(top: Reader) -> Domain:
    return Domain(
        min_batch=max(_read_optional(top, "min_batch", 1), 1),
        max_length=_read_optional(top, "max_length", 0) or None,
        multiple_of=max(_read_optional(top, "length_step", 1), 1),
    )


MAX_STORAGES = 2**20
"""Storages of one pass, which each of its runs has a place for; a decoder has some hundreds."""
_COUNTED = 6
"""Parts of an operation whose bytes were counted; one less where they were not."""
MAX_ORDER = 4096
"""Layers of a model, eight times those of the deepest stack that a config may have."""


def decode_recording(document: object, *, weights_only: bool = False) -> RecordedModel:
    """Return the recording of a document.

    One of weights only may lack passes. Raises InvalidInputError for what is no recording.
    """
    top = Reader(document, "recording")
    if top.get("format").value != FORMAT:
        message = f"this recording has format {top.get('format').value!r}; it must be {FORMAT}"
        raise InvalidInputError(message, field="format")
    sizes = [size.read_any_size() for size in top.get("sizes").items()]
    layers = tuple(read_layer(layer) for layer in top.get("layers").items())
    limits = _read_limits(top)
    order = tuple(part.read_index(len(layers)) for part in top.get("order").items())
    passes = {
        name: _read_pass(part, sizes, len(layers), limits)
        for name, part in top.get("passes").entries()
    }
    if len(order) > MAX_ORDER:
        message = f"this recording has {len(order):,} layers; at most {MAX_ORDER:,} are answered"
        raise InvalidInputError(message, field="order")
    if not weights_only and (not passes or bool(layers) != bool(order)):
        # A model whose layers are no stack runs as one program, and has none.
        message = "this recording has no passes, or layers without an order; it must have both"
        raise InvalidInputError(message, field="layers")
    assert isinstance(document, Mapping)  # noqa: S101 - read as one
    return RecordedModel(
        spec=_read_spec(top.get("spec"), compute_digest(document)),
        model_type=top.get("model_type").read_text(),
        model_class=top.get("model_class").read_text(),
        transformers=top.get("transformers").read_text(),
        torch=top.get("torch").read_text(),
        layers=layers,
        order=order,
        outer_weights=tuple(part.read_weight() for part in top.get("outer_weights").items()),
        outer_linears=tuple(part.read_linear() for part in top.get("outer_linears").items()),
        embedding=top.get("embedding").read_text(),
        head=top.get("head").read_text(),
        buffer_bytes=top.get("buffer_bytes").read_count(),
        buffer_elements=_read_optional(top, "buffer_elements", 0),
        rotary_elements=top.get("rotary_elements").read_count(),
        difference=_read_optional(top, "difference", 0),
        outer_plan=read_plan(top, "outer_plan"),
        passes=passes,
    )


def _read_spec(reader: Reader, digest: str) -> RecordedSpec:
    def count(name: str) -> int:
        return reader.get(name).read_count()

    return RecordedSpec(
        recording=digest,
        family=reader.get("family").read_text(),
        vocab_size=count("vocab_size"),
        hidden_size=count("hidden_size"),
        num_hidden_layers=count("num_hidden_layers"),
        num_attention_heads=count("num_attention_heads"),
        num_key_value_heads=count("num_key_value_heads"),
        head_dim=count("head_dim"),
        intermediate_size=count("intermediate_size"),
        activation=reader.get("activation").read_text(),
        tie_word_embeddings=reader.get("tie_word_embeddings").read_flag(),
        max_position_embeddings=count("max_position_embeddings"),
        num_experts=_read_optional(reader, "num_experts", 0),
        num_experts_per_token=_read_optional(reader, "num_experts_per_token", 0),
    )


@dataclass(frozen=True, slots=True)
class _FrameReader:
    """Numbers that a program may name."""

    sizes: Sequence[AnySize]
    num_values: int
    num_storages: int

    def size(self, part: Reader) -> AnySize:
        return self.sizes[part.read_index(len(self.sizes))]

    def plain_size(self, part: Reader) -> Size:
        size = self.size(part)
        return size if isinstance(size, tuple) else size.smooth()

    def value(self, part: Reader) -> int:
        return part.read_index(self.num_values)

    def values(self, part: Reader) -> tuple[int, ...]:
        return tuple(self.value(item) for item in part.items())

    def storages(self, part: Reader) -> tuple[int | None, ...]:
        return tuple(item.read_optional_index(self.num_storages) for item in part.items())

    def read_values(self, part: Reader) -> tuple[ValueSpec, ...]:
        specs = []
        for item in part.items():
            numel, dtype, storage = item.items(3)
            specs.append(
                ValueSpec(
                    numel=self.size(numel),
                    dtype=None if dtype.value is None else dtype.read_choice(DType),
                    storage=storage.read_optional_index(self.num_storages),
                )
            )
        return tuple(specs)

    def read_instructions(self, part: Reader) -> tuple[Instruction, ...]:
        return tuple(
            self.read_loop(item) if _read_kind(item) == "loop" else self.read_instruction(item)
            for item in part.items()
        )

    def read_loop(self, part: Reader) -> Loop:
        _, turns, values, storages, produced, instructions = part.items(6)
        return Loop(
            turns=self.size(turns),
            values=tuple(self.read_pair(item, self.num_values) for item in values.items()),
            storages=tuple(self.read_pair(item, self.num_storages) for item in storages.items()),
            produced=self.values(produced),
            instructions=tuple(self.read_instruction(item) for item in instructions.items()),
        )

    def read_pair(self, part: Reader, count: int) -> tuple[int, int]:
        place, produced = part.items(2)
        return place.read_index(count), produced.read_index(count)

    def read_instruction(self, part: Reader) -> Straight:
        kind, parts = _read_kind(part), part.items()
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
        if kind == "linear":
            _, layer, x, output = part.items(4)
            return LinearCall(layer=layer.read_text(), x=self.value(x), output=self.value(output))
        if kind != "operation":
            raise part.fail("an operation, a linear layer, embeddings or a release")
        counted = len(parts) == _COUNTED
        _, operator, allocated, scratch, nodes, *moved = part.items(_COUNTED - (not counted))
        return Operation(
            operator=operator.read_text(),
            allocated=tuple(self.read_allocation(item) for item in allocated.items()),
            scratch=tuple(self.size(item) for item in scratch.items()),
            nodes=tuple(self.read_node(item) for item in nodes.items()),
            moved=self.plain_size(moved[0]) if moved else None,
        )

    def read_allocation(self, part: Reader) -> Allocation:
        storage, size = part.items(2)
        return Allocation(storage=storage.read_index(self.num_storages), size=self.size(size))

    def read_node(self, part: Reader) -> GraphNode:
        name, outputs, before, after, events, gradients = part.items(6)
        numbers = tuple(item.read_optional_index(self.num_values) for item in outputs.items())
        read_events = tuple(self.read_event(item) for item in events.items())
        allocated = sum(event.action is Action.ALLOCATE for event in read_events)
        return GraphNode(
            name=name.read_text(),
            outputs=numbers,
            saved_before=self.storages(before),
            saved_after=self.storages(after),
            events=_check_events(read_events, events),
            gradients=tuple(
                self.read_gradient(item, allocated, len(numbers)) for item in gradients.items()
            ),
        )

    def read_event(self, part: Reader) -> BackwardEvent:
        action, index, size = part.items(3)
        return BackwardEvent(
            action=action.read_choice(Action), index=index.read_count(), size=self.size(size)
        )

    def read_gradient(self, part: Reader, allocated: int, outputs: int) -> Gradient:
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
    parts = part.items()
    return parts[0].value if parts else None


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


def _read_program(part: Reader, sizes: Sequence[AnySize]) -> Program:
    frame = _FrameReader(
        sizes, len(part.get("values").items()), part.get("num_storages").read_index(MAX_STORAGES)
    )
    return Program(
        values=frame.read_values(part.get("values")),
        num_storages=frame.num_storages,
        inputs=part.get("inputs").read_index(frame.num_values + 1),
        instructions=frame.read_instructions(part.get("instructions")),
        output=frame.value(part.get("output")),
    )


def _read_domain(part: Reader, limits: Domain) -> Domain:
    if "domain" not in dict(part.entries()):
        return limits
    fewest, largest, shortest, longest, multiple, no_multiple = part.get("domain").items(6)
    return Domain(
        min_batch=fewest.read_count(),
        max_batch=largest.read_optional_index(MAX_SIZE),
        min_length=shortest.read_count(),
        max_length=longest.read_optional_index(MAX_SIZE),
        multiple_of=max(multiple.read_count(), 1),
        no_multiple_of=no_multiple.read_count(),
    )


def _read_pass(part: Reader, sizes: Sequence[AnySize], kinds: int, limits: Domain) -> RecordedPass:
    frame = _FrameReader(
        sizes, len(part.get("values").items()), part.get("num_storages").read_index(MAX_STORAGES)
    )
    return RecordedPass(
        values=frame.read_values(part.get("values")),
        num_storages=frame.num_storages,
        inputs=frame.values(part.get("inputs")),
        prologue=frame.read_instructions(part.get("prologue")),
        x=frame.value(part.get("x")),
        holds_x=part.get("holds_x").read_flag(),
        layer_args=frame.values(part.get("layer_args")),
        blocks=tuple(_read_program(block, sizes) for block in part.get("blocks").items(kinds)),
        block_inputs=tuple(
            frame.values(inputs) for inputs in part.get("block_inputs").items(kinds)
        ),
        output=frame.value(part.get("output")),
        epilogue=frame.read_instructions(part.get("epilogue")),
        hidden=frame.value(part.get("hidden")),
        tail=frame.read_instructions(part.get("tail")),
        loss=part.get("loss").read_optional_index(frame.num_values),
        returned=frame.values(part.get("returned")),
        domain=_read_domain(part, limits),
    )
