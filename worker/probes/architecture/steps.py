"""Two hearings of a pass as one list of steps.

Steps say what is made, kept, named and handed back.
"""

from dataclasses import dataclass, field

from service.jobs.contract import FailureKind
from service.probing.refusal import Refusal
from worker.probes.architecture.listening.anchor import ANCHOR
from worker.probes.architecture.listening.raw_pass import (
    CACHE_UPDATE,
    RawEntry,
    RawExit,
    RawNode,
    RawOperation,
    RawPass,
    RawRelease,
    list_moved,
)


@dataclass(slots=True, kw_only=True)
class HandedOn:
    """A gradient that a node hands on."""

    value: int | None
    parameter: str | None
    allocated: int | None
    incoming: int | None
    is_view: bool


@dataclass(slots=True, kw_only=True)
class NodeStep:
    """One node of the graph.

    ``events`` are (action, storage of its own, bytes).
    """

    name: str
    outputs: tuple[int | None, ...]
    saved_before: tuple[int | None, ...]
    saved_after: tuple[int | None, ...]
    events: tuple[tuple[str, int, int], ...]
    gradients: tuple[HandedOn, ...]


@dataclass(slots=True, kw_only=True)
class OperationStep:
    """One operator."""

    operator: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    allocated: tuple[int, ...]
    scratch: tuple[int, ...]
    moved: tuple[int, ...] = ()
    """Values that its kernel reads and writes."""
    nodes: list[NodeStep] = field(default_factory=list)
    leaves: list[int] = field(default_factory=list)  # Outputs whose gradient the model asks.


@dataclass(slots=True, kw_only=True)
class LinearStep:
    """One linear layer."""

    layer: str
    x: int
    output: int


@dataclass(slots=True, kw_only=True)
class CacheStep:
    """Keys and values go through the cache of a layer."""

    parts: tuple[int, ...]
    joined: tuple[int, ...]
    window: int | None


@dataclass(slots=True, kw_only=True)
class ReleaseStep:
    """The last name of a storage goes."""

    storage: int


@dataclass(slots=True, kw_only=True)
class BoundaryStep:
    """A module is entered or left."""

    module: str
    entered: bool
    inputs: tuple[int, ...] = ()
    outputs: tuple[int, ...] = ()


@dataclass(slots=True, kw_only=True)
class LoopStep:
    """Begin or end of a loop, with its turns in this pass."""

    entered: bool
    turns: int = 0
    values: tuple[tuple[int, int], ...] = ()
    storages: tuple[tuple[int, int], ...] = ()
    produced: tuple[int, ...] = ()


_REDUCTIONS = frozenset({"aten.sum.dim_IntList", "aten._to_copy.default"})
"""Operators by which a formula's results become gradients of the inputs' shape and format."""

Step = OperationStep | LinearStep | CacheStep | ReleaseStep | BoundaryStep | LoopStep


def make_steps(names: RawPass, graph: RawPass) -> list[Step]:
    """Return a pass's steps, from its names and its backward."""
    _check_alike(names, graph)
    steps: list[Step] = []
    producers: dict[int, OperationStep] = {}
    for event in names.events:
        if isinstance(event, RawOperation):
            step = OperationStep(
                operator=event.operator,
                inputs=tuple(event.inputs),
                outputs=tuple(event.outputs),
                allocated=tuple(event.allocated),
                scratch=event.scratch,
                moved=list_moved(names, event),
            )
            producers |= dict.fromkeys(event.outputs, step)
            steps.append(step)
        elif isinstance(event, RawRelease):
            steps.append(ReleaseStep(storage=event.storage))
        elif isinstance(event, RawEntry):
            steps.append(
                BoundaryStep(
                    module=event.module,
                    entered=True,
                    inputs=tuple(event.inputs),
                )
            )
        else:
            steps.append(
                BoundaryStep(module=event.module, entered=False, outputs=tuple(event.outputs))
            )
    for plain, ran in zip(_sort_nodes(names), _sort_nodes(graph), strict=True):
        _attach(names, graph, producers, plain, ran)
    for node in names.nodes:
        for target in node.targets:
            if target is not None and target[0] == "leaf" and int(target[1]) in producers:
                producers[int(target[1])].leaves.append(int(target[1]))
    return _join_linears(names, steps)


def _check_alike(names: RawPass, graph: RawPass) -> None:
    same_graph = [n.name for n in _sort_nodes(names)] == [n.name for n in _sort_nodes(graph)]
    if _list_operators(names) != _list_operators(graph) or not same_graph:
        message = "this model's code runs other operations each time: it cannot be recorded"
        raise Refusal(FailureKind.UNSUPPORTED, message)


def _sort_nodes(listened: RawPass) -> list[RawNode]:
    """Return a pass's nodes in the order in which they were made."""
    return sorted(listened.nodes, key=lambda node: node.order)


def _list_operators(listened: RawPass) -> list[str]:
    """Return a pass's operators.

    A graph that keeps an output detaches it first, which is left out.
    """
    return [
        event.operator
        for event in listened.events
        if isinstance(event, RawOperation) and event.operator != "aten.detach.default"
    ]


def _attach(
    names: RawPass,
    graph: RawPass,
    producers: dict[int, OperationStep],
    plain: RawNode,
    ran: RawNode,
) -> None:
    """Attach a node to the operation that made its last output."""
    values = [value for value in plain.outputs.values() if value in producers]
    if not values or not ran.ran or plain.name == ANCHOR:
        return
    step = producers[max(values)]
    allocated_here = {names.values[value].storage for value in step.outputs} & set(step.allocated)
    before = tuple(place for place in plain.saved if place not in allocated_here)
    after = tuple(place for place in plain.saved if place in allocated_here)
    count = max(plain.outputs) + 1
    events, numbers = _renumber(graph, ran)
    step.nodes.append(
        NodeStep(
            name=plain.name,
            outputs=tuple(plain.outputs.get(index) for index in range(count)),
            saved_before=before,
            saved_after=after,
            events=events,
            gradients=tuple(_iterate_gradients(names, plain, ran, numbers)),
        )
    )


def _renumber(
    graph: RawPass, node: RawNode
) -> tuple[tuple[tuple[str, int, int], ...], dict[int, int]]:
    """Return a backward's events with storages of its own, numbered from 0."""
    numbers: dict[int, int] = {}
    events: list[tuple[str, int, int]] = []
    unpacked = False
    for action, storage, operator in node.events:
        if operator in _REDUCTIONS and not unpacked:
            events.append(("unpack", 0, 0))
            unpacked = True
        if action == "allocate":
            numbers[storage] = len(numbers)
            events.append(("allocate", numbers[storage], graph.sizes[storage]))
        elif action == "free" and storage in numbers:
            events.append(("free", numbers[storage], 0))
    return tuple(events), numbers


def _iterate_gradients(
    names: RawPass, plain: RawNode, ran: RawNode, numbers: dict[int, int]
) -> list[HandedOn]:
    gradients = []
    for target, gradient in zip(plain.targets, ran.gradients, strict=True):
        if target is None or gradient is None:
            continue
        kind, where, output = target
        value, parameter = None, None
        if kind == "parameter":
            parameter = str(where)
        elif kind == "leaf":
            value = int(where)
        else:
            value = names.nodes[int(where)].outputs.get(output)
        allocated = numbers.get(gradient.storage) if gradient.incoming is None else None
        if allocated is None and gradient.incoming is None:
            message = f"{plain.name} hands on a gradient that it neither got nor made"
            raise Refusal(FailureKind.UNSUPPORTED, message)
        if value is None and parameter is None:
            message = f"{plain.name} hands a gradient to a tensor that no operation made"
            raise Refusal(FailureKind.UNSUPPORTED, message)
        gradients.append(
            HandedOn(
                value=value,
                parameter=parameter,
                allocated=allocated,
                incoming=gradient.incoming,
                is_view=gradient.is_view,
            )
        )
    return gradients


def _join_linears(names: RawPass, steps: list[Step]) -> list[Step]:
    """Return the steps with each linear layer as one."""
    entries = iter(event for event in names.events if isinstance(event, RawEntry | RawExit))
    joined: list[Step] = []
    layer: RawEntry | None = None
    inner: set[int | None] = set()
    outer_releases: list[Step] = []
    for step in steps:
        if isinstance(step, BoundaryStep):
            event = next(entries)
            if isinstance(event, RawEntry) and (_is_linear(event) or event.kind == CACHE_UPDATE):
                layer, outer_releases = event, []
                continue
            if isinstance(event, RawExit) and layer is not None:
                joined.append(_make_call(layer, event))
                inner -= {names.values[value].storage for value in event.outputs}
                joined += outer_releases
                layer = None
                continue
            joined.append(step)
        elif layer is not None:
            if isinstance(step, OperationStep):
                inner |= set(step.allocated)
            elif isinstance(step, ReleaseStep) and step.storage not in inner:
                outer_releases.append(step)
        elif not (isinstance(step, ReleaseStep) and step.storage in inner):
            joined.append(step)
    return joined


def _make_call(layer: RawEntry, left: RawExit) -> Step:
    """Return the one step of a linear layer, or of a cache."""
    if layer.kind == CACHE_UPDATE:
        return CacheStep(parts=tuple(layer.inputs), joined=tuple(left.outputs), window=layer.window)
    return LinearStep(layer=layer.module, x=layer.inputs[0], output=left.outputs[0])


def _is_linear(event: RawEntry) -> bool:
    return event.kind == "Linear" and len(event.inputs) == 1
