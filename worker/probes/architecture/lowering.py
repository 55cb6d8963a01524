"""Steps of several passes as instructions with sizes that are polynomials."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

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
    ValueSpec,
    flatten,
)
from service.estimator.tape.programs.stepped_sizes import AnySize
from service.estimator.tape.sizes import ZERO, Size, scale, total
from service.estimator.values.dtypes import DType
from worker.probes.architecture.listening.listen import Extent
from worker.probes.architecture.listening.raw_pass import RawPass
from worker.probes.architecture.polynomials import fit_size, fit_turns
from worker.probes.architecture.steps import (
    BoundaryStep,
    CacheStep,
    HandedOn,
    LinearStep,
    LoopStep,
    NodeStep,
    OperationStep,
    ReleaseStep,
    Step,
)

_DTYPES = {"float32": DType.FP32, "bfloat16": DType.BF16, "float16": DType.FP16}


@dataclass(frozen=True, slots=True, kw_only=True)
class Passes:
    """One variant of a model at every extent."""

    passes: tuple[RawPass, ...]
    steps: tuple[list[Step], ...]
    embeddings: frozenset[str]
    """Names of the modules that embed tokens."""
    extents: tuple[Extent, ...]
    steps_of_length: tuple[int, ...] = ()
    """Tokens to which this model may round a length."""

    def fit(self, counts: Sequence[int]) -> AnySize:
        """Return the polynomial of a size, from its values at the extents."""
        return fit_size(counts, self.extents, self.steps_of_length)

    def fit_turns(self, counts: Sequence[int]) -> AnySize:
        """Return how often a loop runs, from its turns at the extents."""
        return fit_turns(counts, self.extents, self.steps_of_length)

    def fit_value(self, value: int) -> AnySize:
        """Return the elements of a tensor."""
        return self.fit([listened.values[value].numel for listened in self.passes])

    def fit_storage(self, storage: int) -> AnySize:
        """Return the bytes of a storage."""
        return self.fit([listened.sizes[storage] for listened in self.passes])


@dataclass(slots=True, kw_only=True)
class Numbers:
    """Numbers of values and storages in one program."""

    passes: Passes
    prefix: str = ""
    values: dict[int, int] = field(default_factory=dict)
    storages: dict[int, int] = field(default_factory=dict)
    specs: list[ValueSpec] = field(default_factory=list)
    num_storages: int = 0

    def get_value(self, value: int) -> int:
        """Return the number of a value, if need be a new one."""
        if value not in self.values:
            raw = self.passes.passes[0].values[value]
            storage = None if raw.storage is None else self.get_storage(raw.storage)
            self.values[value] = len(self.specs)
            self.specs.append(
                ValueSpec(
                    numel=self.passes.fit_value(value),
                    dtype=_DTYPES.get(raw.dtype),
                    storage=storage,
                )
            )
        return self.values[value]

    def get_storage(self, storage: int) -> int:
        """Return the number of a storage, if need be a new one."""
        if storage not in self.storages:
            self.storages[storage] = self.num_storages
            self.num_storages += 1
        return self.storages[storage]

    def name(self, weight: str) -> str:
        """Return a weight's name in the block."""
        return weight.removeprefix(self.prefix)


def lower_steps(numbers: Numbers, columns: Sequence[Sequence[Step]]) -> list[Instruction]:
    """Return the instructions of steps; ``columns`` has each step at every extent."""
    instructions: list[Instruction] = []
    start = 0
    passes = numbers.passes
    for column in columns:
        step = column[0]
        if isinstance(step, LoopStep):
            if step.entered:
                start = len(instructions)
            else:
                turns = passes.fit_turns([s.turns for s in column if isinstance(s, LoopStep)])
                instructions[start:] = [_make_loop(numbers, step, turns, instructions[start:])]
        elif isinstance(step, OperationStep):
            instructions.append(
                _lower_operation(numbers, [s for s in column if isinstance(s, OperationStep)])
            )
            instructions += [Leaf(value=numbers.get_value(value)) for value in step.leaves]
        elif isinstance(step, LinearStep):
            instructions.append(
                LinearCall(
                    layer=numbers.name(step.layer),
                    x=numbers.get_value(step.x),
                    output=numbers.get_value(step.output),
                )
            )
        elif isinstance(step, CacheStep):
            instructions.append(
                CacheUpdate(
                    parts=tuple(map(numbers.get_value, step.parts)),
                    joined=tuple(map(numbers.get_value, step.joined)),
                    window=step.window,
                )
            )
        elif isinstance(step, BoundaryStep) and step.module in passes.embeddings:
            if not step.entered:
                instructions.append(Embedded(value=numbers.get_value(step.outputs[0])))
        elif isinstance(step, ReleaseStep):
            instructions.append(Release(storage=numbers.get_storage(step.storage)))
    return instructions


def _make_loop(
    numbers: Numbers, step: LoopStep, turns: AnySize, instructions: Sequence[Instruction]
) -> Loop:
    """Return the loop of the instructions of a turn."""
    value, storage = numbers.get_value, numbers.get_storage
    return Loop(
        turns=turns,
        values=tuple((value(place), value(produced)) for place, produced in step.values),
        storages=tuple((storage(place), storage(produced)) for place, produced in step.storages),
        produced=tuple(
            numbers.values[produced] for produced in step.produced if produced in numbers.values
        ),
        instructions=tuple(flatten(instructions)),
    )


def _lower_operation(numbers: Numbers, column: Sequence[OperationStep]) -> Operation:
    step, passes = column[0], numbers.passes
    for value in (*step.inputs, *step.outputs):
        numbers.get_value(value)
    return Operation(
        operator=step.operator,
        allocated=tuple(
            Allocation(storage=numbers.get_storage(storage), size=passes.fit_storage(storage))
            for storage in step.allocated
        ),
        scratch=tuple(map(passes.fit, zip(*(s.scratch for s in column), strict=True))),
        moved=total(_count_bytes(passes, value) for value in step.moved),
        nodes=tuple(
            _lower_node(numbers, nodes) for nodes in zip(*(s.nodes for s in column), strict=True)
        ),
    )


def _count_bytes(passes: Passes, value: int) -> Size:
    """Return a tensor's bytes, for a time."""
    numel = passes.fit_value(value)
    width = getattr(torch, passes.passes[0].values[value].dtype).itemsize
    return scale(numel if isinstance(numel, tuple) else numel.smooth(), width)


def _lower_node(numbers: Numbers, column: Sequence[NodeStep]) -> GraphNode:
    node, fit = column[0], numbers.passes.fit
    events = [
        BackwardEvent(
            action=Action(parts[0][0]),
            index=parts[0][1],
            size=fit([part[2] for part in parts]) if parts[0][0] == "allocate" else ZERO,
        )
        for parts in zip(*(n.events for n in column), strict=True)
    ]
    return GraphNode(
        name=node.name,
        outputs=tuple(None if v is None else numbers.get_value(v) for v in node.outputs),
        saved_before=_number_saved(numbers, node.saved_before),
        saved_after=_number_saved(numbers, node.saved_after),
        events=tuple(events),
        gradients=tuple(_lower_gradient(numbers, gradient) for gradient in node.gradients),
    )


def _number_saved(numbers: Numbers, saved: Sequence[int | None]) -> tuple[int | None, ...]:
    return tuple(None if place is None else numbers.get_storage(place) for place in saved)


def _lower_gradient(numbers: Numbers, gradient: HandedOn) -> Gradient:
    is_allocated = gradient.allocated is not None
    return Gradient(
        value=None if gradient.value is None else numbers.get_value(gradient.value),
        parameter=None if gradient.parameter is None else numbers.name(gradient.parameter),
        source=Source.ALLOCATED if is_allocated else Source.INCOMING,
        index=(gradient.allocated if is_allocated else gradient.incoming) or 0,
        is_view=gradient.is_view,
    )
