"""Rotary positions on a part of each head: slices that are rotated, slices that pass, and how each model joins them again."""

from dataclasses import dataclass
from enum import Enum, auto

from service.estimator.tape.graph import Tape
from service.estimator.tape.ledger import Category
from service.estimator.tape.nodes import Value, bytes_of
from service.estimator.tape.ops.elementwise import cast, rotate
from service.estimator.tape.ops.views import concatenate, narrow
from service.estimator.tape.sizes import Size
from service.estimator.values.dtypes import DType


class Style(Enum):
    """How a model's code rotates; each leaves other tensors alive."""

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
    """a part, sliced in attention itself, whose names live until attention is over (phi, stablelm)"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotation:
    """How positions enter query and key: the first ``rotary_dim`` of ``head_dim`` elements of each head are rotated."""

    style: Style
    head_dim: int
    rotary_dim: int

    def turned(self, numel: Size) -> Size:
        """Return the rotated share of ``numel`` elements."""
        a, b, c, d, e, f = (part * self.rotary_dim // self.head_dim for part in numel)
        return (a, b, c, d, e, f)

    def passed(self, numel: Size) -> Size:
        """Return the share of ``numel`` elements that passes as it is."""
        a, b, c, d, e, f = (part - part * self.rotary_dim // self.head_dim for part in numel)
        return (a, b, c, d, e, f)


Rotated = tuple[Value, Value, list[Value]]


def rotate_both(tape: Tape, query: Value, key: Value, rotation: Rotation, *, table: DType, positions: Size) -> Rotated:
    """Return query and key with positions in ``table`` applied, and what keeps a name; both arguments stay with the caller."""
    if rotation.style is Style.WHOLE:
        return rotate(tape, query, table), rotate(tape, key, table), []
    if rotation.style in {Style.UPCAST, Style.DOWNCAST}:
        return _through_fp32(tape, query, key, table)
    parts = [(narrow(tape, x, rotation.turned(x.numel)), narrow(tape, x, rotation.passed(x.numel))) for x in (query, key)]
    if rotation.style is Style.INLINE:
        joined = [_inline(tape, turned, passed, table) for turned, passed in parts]
        tape.free(*(view for pair in parts for view in pair))
        return joined[0], joined[1], []
    tables = _interleaved(tape, rotation, table, positions) if rotation.style is Style.INTERLEAVED else ()
    rotated = [rotate(tape, turned, table, tables) for turned, _ in parts]
    tape.free(*tables, *(turned for turned, _ in parts))
    return _joined(tape, rotated, [passed for _, passed in parts], rotation.style)


def _joined(tape: Tape, rotated: list[Value], passed: list[Value], style: Style) -> Rotated:
    """Return both sides joined; the rotated parts of interleaved tables lose their names one by one."""
    joined = []
    for turned, rest in zip(rotated, passed, strict=True):
        joined.append(_together(tape, (turned, rest)))
        if style is Style.INTERLEAVED:
            tape.free(turned)
    if style is Style.OUTER:
        return joined[0], joined[1], [*rotated, *passed]
    tape.free(*passed, *(() if style is Style.INTERLEAVED else rotated))
    return joined[0], joined[1], []


def _through_fp32(tape: Tape, query: Value, key: Value, table: DType) -> Rotated:
    sources = [cast(tape, x, DType.FP32) if table is not DType.FP32 else tape.alias(x) for x in (query, key)]
    rotated = [rotate(tape, x, table) for x in sources]
    results = [cast(tape, y, x.dtype) for x, y in zip((query, key), rotated, strict=True)]
    tape.free(*sources, *rotated)
    return results[0], results[1], []


def _inline(tape: Tape, turned: Value, passed: Value, table: DType) -> Value:
    y = rotate(tape, turned, table)
    joined = _together(tape, (y, passed))
    tape.free(y)
    return joined


def _interleaved(tape: Tape, rotation: Rotation, table: DType, positions: Size) -> tuple[Value, ...]:
    a, b, c, d, e, f = (part * rotation.rotary_dim for part in positions)
    numel = (a, b, c, d, e, f)
    return tuple(Value(tape.allocate(Category.ACTIVATIONS, bytes_of(numel, table)), numel, table) for _ in range(2))


def _together(tape: Tape, parts: tuple[Value, ...]) -> Value:
    """Return the parts in one tensor of their widest dtype, to which autocast casts them first."""
    dtype = DType.FP32 if any(part.dtype is DType.FP32 for part in parts) else parts[0].dtype
    sources = tuple(cast(tape, part, dtype) for part in parts)
    joined = concatenate(tape, sources)
    tape.free(*sources)
    return joined
