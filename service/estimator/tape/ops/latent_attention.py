"""Operations of multi-head latent attention as DeepSeek's code in transformers writes them."""

from service.estimator.tape import sizes
from service.estimator.tape.graph import Tape
from service.estimator.tape.ledger import Category, Storage
from service.estimator.tape.nodes import Node, Value, bytes_of
from service.estimator.tape.ops.elementwise import add, cast, chain, times_table
from service.estimator.tape.ops.products import split
from service.estimator.tape.ops.views import concatenate, narrow
from service.estimator.tape.sizes import Size
from service.estimator.values.dtypes import DType


def reordered(tape: Tape, x: Value) -> Value:
    """Return ``x`` transposed, a view, which is dropped as ``x``: its gradient is copied back into the order of ``x``."""
    view = tape.alias(x)
    if tape.records and x.requires_grad:
        view.node = tape.append(Node([], lambda _: tape.send(x, tape.scratch(x.numel, x.dtype))))
    tape.free(x)
    return view


def assembled(tape: Tape, passed: Value, turned: Value, expanded: Size) -> Value:
    """Return keys written into a new tensor: each head's own part, and one rotated part for all heads (``expanded``).

    Each write is a node that copies the whole gradient and its own slice of it; the shared part's is summed over the heads.
    """
    numel = sizes.add(passed.numel, expanded)
    joined = Value(tape.allocate(Category.ACTIVATIONS, bytes_of(numel, passed.dtype)), numel, passed.dtype)
    if not (tape.records and (passed.requires_grad or turned.requires_grad)):
        return joined
    shared = tape.append(Node([], lambda _: tape.send(turned, tape.scratch(turned.numel, turned.dtype))))
    first = Value(None, numel, passed.dtype)
    second = Value(None, expanded, passed.dtype, shared)

    def write_shared(_: Storage) -> None:
        whole, part = tape.scratch(numel, passed.dtype), tape.scratch(expanded, passed.dtype)
        tape.release(tape.scratch(expanded, passed.dtype))
        tape.send(first, whole)
        tape.send(second, part)

    def write_own(_: Storage) -> None:
        whole, part = tape.scratch(numel, passed.dtype), tape.scratch(passed.numel, passed.dtype)
        tape.release(whole)
        tape.send(passed, part)

    first.node = tape.append(Node([], write_own))
    joined.node, joined.requires_grad = tape.append(Node([], write_shared)), True
    return joined


def turn_as_complex(tape: Tape, query: Value, key: Value, angles: Size) -> tuple[Value, Value]:
    """Return both sides multiplied by complex ``angles`` in fp32 and cast back (DeepSeek-V2); the arguments are dropped."""
    wide = cast(tape, query, DType.FP32), cast(tape, key, DType.FP32)
    turned = (
        chain(tape, _spun(tape, wide[0], angles, copies=True), lambda t, x: cast(t, x, query.dtype)),
        chain(tape, _spun(tape, wide[1], angles, copies=False), lambda t, x: cast(t, x, key.dtype)),
    )
    tape.free(*wide, query, key)
    return turned


def turn_together(tape: Tape, query: Value, key: Value, angles: Size) -> tuple[Value, Value]:
    """Return both sides multiplied by complex ``angles`` in fp32, cast back at the end (Llama 4); the arguments are dropped."""
    wide = cast(tape, query, DType.FP32), cast(tape, key, DType.FP32)
    spun = _spun(tape, wide[0], angles, copies=False), _spun(tape, wide[1], angles, copies=False)
    turned = cast(tape, spun[0], query.dtype), cast(tape, spun[1], key.dtype)
    tape.free(*wide, *spun, query, key)
    return turned


def _spun(tape: Tape, x: Value, angles: Size, *, copies: bool) -> Value:
    """Return a complex product with constant angles; ``copies``: the gradient is brought into the order of ``x`` first."""

    def backward(_: Storage) -> None:
        conjugate, grad = tape.scratch(angles, DType.FP32), tape.scratch(x.numel, DType.FP32)
        tape.release(conjugate)
        tape.send(x, grad)

    y = tape.emit(x.numel, DType.FP32, inputs=(x,), backward=backward)
    return reordered(tape, y) if copies else y


def turn_interleaved(tape: Tape, query: Value, key: Value, table: DType) -> tuple[Value, Value]:
    """Return both sides rotated by pairs of neighbours (DeepSeek-V3); the arguments are dropped."""
    halves = [(narrow(tape, x, _half(x.numel)), narrow(tape, x, _half(x.numel))) for x in (query, key)]
    turned = [_turned_pairs(tape, even, odd, table) for even, odd in halves]
    tape.free(*(part for pair in halves for part in pair), query, key)
    return turned[0], turned[1]


def turn_halves(tape: Tape, x: Value, table: DType) -> Value:
    """Return ``x`` rotated as two halves that are put together again (gpt_oss); ``x`` stays with the caller."""
    half = _half(x.numel)
    left, right = split(tape, tape.alias(x), (half, half))
    y = _turned_pairs(tape, left, right, table)
    tape.free(left, right)
    return y


def _turned_pairs(tape: Tape, even: Value, odd: Value, table: DType) -> Value:
    left, right = times_table(tape, even, table), times_table(tape, odd, table)
    first = _difference(tape, left, right)
    tape.free(left, right)
    left, right = times_table(tape, odd, table), times_table(tape, even, table)
    second = add(tape, left, right)
    tape.free(left, right)
    y = concatenate(tape, (first, second))
    tape.free(first, second)
    return y


def _difference(tape: Tape, left: Value, right: Value) -> Value:
    def backward(grad: Storage) -> None:
        tape.send(left, tape.hold(grad))
        tape.send(right, tape.scratch(right.numel, right.dtype))

    return tape.emit(left.numel, left.dtype, inputs=(left, right), backward=backward)


def _half(numel: Size) -> Size:
    a, b, c, d, e, f = (part // 2 for part in numel)
    return (a, b, c, d, e, f)
