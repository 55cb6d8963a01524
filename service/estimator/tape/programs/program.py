"""Recorded passes as instructions, sized by batch and length.

A program runs on a frame of values (tensors that Python or autograd refers to) and storages. Both
are numbered; the first values are the program's inputs.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from service.estimator.tape.programs.stepped_sizes import AnySize
from service.estimator.tape.sizes import Size
from service.estimator.values.dtypes import DType


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueSpec:
    """One tensor of a program.

    ``dtype`` is None where it takes no gradient (integers, booleans). ``storage`` is None for a
    parameter, a buffer or a view of one.
    """

    numel: AnySize
    dtype: DType | None
    storage: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """A storage that an instruction makes, so many bytes."""

    storage: int
    size: AnySize


class Source(StrEnum):
    """Storage of a gradient that a node's backward hands on."""

    ALLOCATED = "allocated"
    """one that this backward made"""
    INCOMING = "incoming"
    """that of a gradient which came in"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gradient:
    """A gradient that a node's backward hands on.

    ``index`` is the storage among those made, or the output whose gradient it is.
    """

    value: int | None
    parameter: str | None
    source: Source
    index: int
    is_view: bool


class Action(StrEnum):
    """A step of a node's backward with a storage of its own."""

    ALLOCATE = "allocate"
    FREE = "free"
    UNPACK = "unpack"
    """drops what the node saved: what follows only reduces and casts gradients"""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackwardEvent:
    """One allocation or release while a node's backward runs."""

    action: Action
    index: int
    size: AnySize


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphNode:
    """Autograd's node of an instruction.

    ``outputs`` has the value of each output, None where none is differentiable. ``saved_before``
    and ``saved_after`` are the storages that it keeps, None for a parameter's.
    """

    name: str
    outputs: tuple[int | None, ...]
    saved_before: tuple[int | None, ...]
    saved_after: tuple[int | None, ...]
    events: tuple[BackwardEvent, ...]
    gradients: tuple[Gradient, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One operator, its storages, its scratch and its nodes.

    ``moved`` are the bytes that its kernel reads and writes, none for a view; None where they were
    not counted.
    """

    operator: str
    allocated: tuple[Allocation, ...]
    scratch: tuple[AnySize, ...]
    nodes: tuple[GraphNode, ...]
    moved: Size | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearCall:
    """A linear layer by its name, from one value to another."""

    layer: str
    x: int
    output: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """The last Python name of a storage goes."""

    storage: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedded:
    """The token embeddings are there, of which adapters may ask a gradient."""

    value: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """A tensor whose gradient the model asks (wav2vec 2.0's audio)."""

    value: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheUpdate:
    """Keys and values go through the cache of a layer."""

    parts: tuple[int, ...]
    joined: tuple[int, ...]
    window: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """Instructions that run again for each part of a sequence.

    ``values`` and ``storages`` are what a turn reads of the one before: pairs of the number by
    which it reads, and of the number that the turn before made. ``produced`` are the values that
    each turn makes anew.
    """

    turns: AnySize
    values: tuple[tuple[int, int], ...]
    storages: tuple[tuple[int, int], ...]
    produced: tuple[int, ...]
    instructions: "tuple[Straight, ...]"


Straight = CacheUpdate | Operation | LinearCall | Release | Embedded | Leaf
"""Instructions that run once."""
Instruction = Straight | Loop


def flatten(instructions: Iterable[Instruction]) -> Iterator[Straight]:
    """Yield instructions, those of loops once."""
    for part in instructions:
        if isinstance(part, Loop):
            yield from part.instructions
        else:
            yield part


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """Instructions with the values and the number of storages of their frame.

    The first ``inputs`` of ``values`` come from the caller; the first of all is the one that it is
    called on.
    """

    values: tuple[ValueSpec, ...]
    num_storages: int
    inputs: int
    instructions: tuple[Instruction, ...]
    output: int
