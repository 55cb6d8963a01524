"""Rotary positions on a part of each head.

Slices are rotated or pass, and each model joins them again in its own way.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from service.estimator.tape.graph import Tape
from service.estimator.tape.ledger import Category, Storage
from service.estimator.tape.nodes import Value, count_bytes
from service.estimator.tape.ops.elementwise import cast, rotate
from service.estimator.tape.ops.views import concatenate_promoted, narrow
from service.estimator.tape.sizes import Size
from service.estimator.values.dtypes import DType


class RotaryStyle(Enum):
    """Rotation as a model's code writes it.

    Each style leaves other tensors alive.
    """

    WHOLE = auto()
    """all of each head (llama)"""
    UPCAST = auto()
    """all of each head, in fp32 from the start, cast back at the end (cohere)"""
    DOWNCAST = auto()
    """all of each head with fp32 tables, cast back at the end (olmo)"""
    INLINE = auto()
    """a part, joined with the rest in one expression (phi3)"""
    JOINED = auto()
    """a part of both query and key, then both joined (nemotron)"""
    INTERLEAVED = auto()
    """as JOINED, with tables that each layer interleaves for itself (glm)"""
    OUTER = auto()
    """a part, sliced in attention itself, whose names live until attention is over (phi, stablelm)
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotation:
    """Rotary positions of query and key.

    The first ``rotary_dim`` of ``head_dim`` elements of each head are rotated.
    """

    style: RotaryStyle
    head_dim: int
    rotary_dim: int

    def rotated_numel(self, numel: Size) -> Size:
        """Return the rotated share of ``numel`` elements."""
        a, b, c, d, e, f = (part * self.rotary_dim // self.head_dim for part in numel)
        return (a, b, c, d, e, f)

    def passed_numel(self, numel: Size) -> Size:
        """Return the share of ``numel`` elements that is not rotated."""
        a, b, c, d, e, f = (part - part * self.rotary_dim // self.head_dim for part in numel)
        return (a, b, c, d, e, f)


def make_rotary_tables(
    tape: Tape, tables: Sequence[int], shape: Callable[[int], Size], dtype: DType
) -> list[Storage]:
    """Return tables of so many elements for each position, in ``dtype``.

    On a GPU the angles of a cosine and its sine, both in fp32, are there while they are made
    (``LlamaRotaryEmbedding.forward``).
    """
    storages: list[Storage] = []
    for pair in zip(tables[::2], tables[1::2], strict=False) if tape.on_gpu else ():
        storages += _make_table_pair(tape, pair, shape, dtype)
    return storages + [
        tape.allocate(Category.ACTIVATIONS, shape(elements * dtype.bytes_per_element))
        for elements in tables[len(storages) :]
    ]


def _make_table_pair(
    tape: Tape, pair: tuple[int, int], shape: Callable[[int], Size], dtype: DType
) -> list[Storage]:
    def allocate(elements: int, dtype: DType = DType.FP32) -> Storage:
        return tape.allocate(Category.ACTIVATIONS, shape(elements * dtype.bytes_per_element))

    angles = [allocate(pair[0] // 2), allocate(pair[0])]
    scaled = []
    for elements in pair:
        plain = allocate(elements)
        scaled.append(allocate(elements))
        tape.release(plain)
    tables = scaled
    if dtype is not DType.FP32:
        tables = [allocate(elements, dtype) for elements in pair]
        angles += scaled
    tape.release(*angles)
    return tables


Rotated = tuple[Value, Value, list[Value]]


def rotate_both(
    tape: Tape, query: Value, key: Value, rotation: Rotation, *, table: DType, positions: Size
) -> Rotated:
    """Return rotated query and key, and the values still named.

    Tables of positions are in ``table``; both arguments stay with the caller.
    """
    if rotation.style is RotaryStyle.WHOLE:
        return rotate(tape, query, table), rotate(tape, key, table), []
    if rotation.style in {RotaryStyle.UPCAST, RotaryStyle.DOWNCAST}:
        upcasts = rotation.style is RotaryStyle.UPCAST
        return _rotate_in_fp32(tape, query, key, table, upcasts=upcasts)
    parts = [
        (
            narrow(tape, x, rotation.rotated_numel(x.numel)),
            narrow(tape, x, rotation.passed_numel(x.numel)),
        )
        for x in (query, key)
    ]
    if rotation.style is RotaryStyle.INLINE:
        joined = [_rotate_inline(tape, turned, passed, table) for turned, passed in parts]
        tape.free(*(view for pair in parts for view in pair))
        return joined[0], joined[1], []
    tables = (
        _make_interleaved_tables(tape, rotation, table, positions)
        if rotation.style is RotaryStyle.INTERLEAVED
        else ()
    )
    rotated = [rotate(tape, turned, table, tables) for turned, _ in parts]
    tape.free(*tables, *(turned for turned, _ in parts))
    return _join_parts(tape, rotated, [passed for _, passed in parts], rotation.style)


def _join_parts(
    tape: Tape, rotated: list[Value], passed: list[Value], style: RotaryStyle
) -> Rotated:
    """Return the parts of both sides joined.

    The rotated parts of interleaved tables lose their names one by one.
    """
    joined = []
    for turned, unrotated in zip(rotated, passed, strict=True):
        joined.append(concatenate_promoted(tape, (turned, unrotated)))
        if style is RotaryStyle.INTERLEAVED:
            tape.free(turned)
    if style is RotaryStyle.OUTER:
        return joined[0], joined[1], [*rotated, *passed]
    tape.free(*passed, *(() if style is RotaryStyle.INTERLEAVED else rotated))
    return joined[0], joined[1], []


def _rotate_in_fp32(
    tape: Tape, query: Value, key: Value, table: DType, *, upcasts: bool
) -> Rotated:
    sources = [cast(tape, x, DType.FP32) if upcasts else tape.alias(x) for x in (query, key)]
    rotated = [rotate(tape, x, table) for x in sources]
    results = [cast(tape, y, x.dtype) for x, y in zip((query, key), rotated, strict=True)]
    tape.free(*sources, *rotated)
    return results[0], results[1], []


def _rotate_inline(tape: Tape, turned: Value, passed: Value, table: DType) -> Value:
    y = rotate(tape, turned, table)
    joined = concatenate_promoted(tape, (y, passed))
    tape.free(y)
    return joined


def _make_interleaved_tables(
    tape: Tape, rotation: Rotation, table: DType, positions: Size
) -> tuple[Value, ...]:
    a, b, c, d, e, f = (part * rotation.rotary_dim for part in positions)
    numel = (a, b, c, d, e, f)
    return tuple(
        Value(tape.allocate(Category.ACTIVATIONS, count_bytes(numel, table)), numel, table)
        for _ in range(2)
    )
