"""One pass of a model in plain numbers, without its tensors."""

from dataclasses import dataclass, field, replace


@dataclass(slots=True, kw_only=True)
class RawValue:
    """One tensor.

    ``storage`` is None for a parameter or a buffer.
    """

    numel: int
    dtype: str
    storage: int | None


@dataclass(slots=True, kw_only=True)
class RawGradient:
    """A gradient that a node handed on.

    ``incoming`` is the output whose gradient it is, where the node did not make it.
    """

    storage: int
    is_view: bool
    incoming: int | None = None


@dataclass(slots=True, kw_only=True)
class RawNode:
    """One node of autograd's graph.

    ``targets`` are its inputs: ``("parameter", name)``, ``("node", number, output)`` or None.
    ``events`` are its backward's: ``("allocate" | "free", storage, operator)``.
    """

    number: int
    order: int
    """Place among the nodes in the order in which they were made."""
    name: str
    targets: list[tuple[str, str | int, int] | None] = field(default_factory=list)
    outputs: dict[int, int] = field(default_factory=dict)
    saved: list[int | None] = field(default_factory=list)
    events: list[tuple[str, int, str]] = field(default_factory=list)
    gradients: list[RawGradient | None] = field(default_factory=list)
    ran: bool = False


@dataclass(slots=True, kw_only=True)
class RawOperation:
    """One operator with the values that it read and made."""

    operator: str
    inputs: list[int]
    outputs: list[int] = field(default_factory=list)
    allocated: list[int] = field(default_factory=list)
    scratch: tuple[int, ...] = ()


@dataclass(slots=True, kw_only=True)
class RawRelease:
    """The last name of a storage went."""

    storage: int


CACHE_UPDATE = "cache update"
"""Kind of a call of a cache's layer, which is no module."""


@dataclass(slots=True, kw_only=True)
class RawEntry:
    """A module was called, or a cache with its ``window``."""

    module: str
    kind: str
    inputs: list[int]
    window: int | None = None


@dataclass(slots=True, kw_only=True)
class RawExit:
    """A module returned."""

    module: str
    outputs: list[int]
    kind: str = ""


RawEvent = RawOperation | RawRelease | RawEntry | RawExit


@dataclass(slots=True, kw_only=True)
class RawPass:
    """Everything heard in one forward pass and its backward."""

    events: list[RawEvent] = field(default_factory=list)
    values: list[RawValue] = field(default_factory=list)
    nodes: list[RawNode] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    """Bytes of each storage."""
    inputs: dict[str, int] = field(default_factory=dict)
    """Values of the batch, by name."""
    returned: dict[str, int] = field(default_factory=dict)
    """Values that the model returned, by name."""


def list_moved(listened: RawPass, operation: RawOperation) -> tuple[int, ...]:
    """Return the values that an operator's kernel reads and writes.

    There are none for a view. Of a weight that is no operand of its output's size a few rows are
    read.
    """
    in_place = operation.operator.split(".")[1].endswith("_")
    if not (operation.allocated or in_place):
        return ()
    values = listened.values
    outputs = [values[place] for place in operation.outputs]
    sizes = {value.numel for value in outputs}
    reads = (
        place
        for place in operation.inputs
        if values[place].storage is not None or values[place].numel in sizes
    )
    return (*operation.outputs, *reads)


def cut_last_call(raw: RawPass) -> RawPass:
    """Return the last call of the model itself, with its inputs."""
    places = [
        place
        for place, event in enumerate(raw.events)
        if isinstance(event, RawEntry | RawExit) and not event.module and _is_module(event)
    ]
    start, end = places[-2:]
    entry = raw.events[start]
    inputs = entry.inputs if isinstance(entry, RawEntry) else []
    return replace(
        raw,
        events=raw.events[start : end + 1],
        inputs={str(place): value for place, value in enumerate(dict.fromkeys(inputs))},
    )


def _is_module(event: RawEntry | RawExit) -> bool:
    return event.kind != CACHE_UPDATE
