"""Multi-head latent attention as DeepSeek's code in transformers."""

from service.estimator.tape import sizes
from service.estimator.tape.graph import Tape
from service.estimator.tape.ledger import Category, Storage
from service.estimator.tape.nodes import Node, Value, count_bytes
from service.estimator.tape.ops.elementwise import add, cast, chain, multiply_by_table
from service.estimator.tape.ops.products import split
from service.estimator.tape.ops.views import concatenate, narrow
from service.estimator.tape.sizes import Size
from service.estimator.values.dtypes import DType


def transpose(tape: Tape, x: Value) -> Value:
    """Return ``x`` transposed, a view, and drop ``x``.

    Its gradient is copied back into the order of ``x``.
    """
    view = tape.alias(x)
    if tape.builds_graph and x.requires_grad:
        view.node = tape.append(Node([], lambda _: tape.send(x, tape.scratch(x.numel, x.dtype))))
    tape.free(x)
    return view


def assemble_keys(tape: Tape, nope: Value, rope: Value, expanded: Size) -> Value:
    """Return keys written into a new tensor.

    They are each head's own part without positions (``nope``), and one rotated part for all heads
    (``rope``, ``expanded`` elements). Each write is a node that copies the full gradient and its
    own slice of it; the shared part's is summed over the heads.
    """
    numel = sizes.add(nope.numel, expanded)
    joined = Value(
        tape.allocate(Category.ACTIVATIONS, count_bytes(numel, nope.dtype)), numel, nope.dtype
    )
    if not (tape.builds_graph and (nope.requires_grad or rope.requires_grad)):
        return joined
    shared = tape.append(Node([], lambda _: tape.send(rope, tape.scratch(rope.numel, rope.dtype))))
    first = Value(None, numel, nope.dtype)
    second = Value(None, expanded, nope.dtype, shared)

    def write_rope(_: Storage) -> None:
        joined_grad, rope_grad = tape.scratch(numel, nope.dtype), tape.scratch(expanded, nope.dtype)
        tape.release(tape.scratch(expanded, nope.dtype))
        tape.send(first, joined_grad)
        tape.send(second, rope_grad)

    def write_nope(_: Storage) -> None:
        joined_grad, nope_grad = (
            tape.scratch(numel, nope.dtype),
            tape.scratch(nope.numel, nope.dtype),
        )
        tape.release(joined_grad)
        tape.send(nope, nope_grad)

    first.node = tape.append(Node([], write_nope))
    joined.node, joined.requires_grad = tape.append(Node([], write_rope)), True
    return joined


def rotate_complex(tape: Tape, query: Value, key: Value, angles: Size) -> tuple[Value, Value]:
    """Return both sides rotated by complex angles (DeepSeek-V2).

    They are multiplied by complex ``angles`` in fp32 and cast back; the arguments are dropped.
    """
    upcast = cast(tape, query, DType.FP32), cast(tape, key, DType.FP32)
    rotated = (
        chain(
            tape,
            _multiply_by_angles(tape, upcast[0], angles, copies=True),
            lambda t, x: cast(t, x, query.dtype),
        ),
        chain(
            tape,
            _multiply_by_angles(tape, upcast[1], angles, copies=False),
            lambda t, x: cast(t, x, key.dtype),
        ),
    )
    tape.free(*upcast, query, key)
    return rotated


def rotate_complex_jointly(
    tape: Tape, query: Value, key: Value, angles: Size
) -> tuple[Value, Value]:
    """Return both sides rotated by complex angles (Llama 4).

    They are multiplied by complex ``angles`` in fp32, and both cast back at the end; the arguments
    are dropped.
    """
    upcast = cast(tape, query, DType.FP32), cast(tape, key, DType.FP32)
    products = (
        _multiply_by_angles(tape, upcast[0], angles, copies=False),
        _multiply_by_angles(tape, upcast[1], angles, copies=False),
    )
    rotated = cast(tape, products[0], query.dtype), cast(tape, products[1], key.dtype)
    tape.free(*upcast, *products, query, key)
    return rotated


def _multiply_by_angles(tape: Tape, x: Value, angles: Size, *, copies: bool) -> Value:
    """Return a complex product with constant angles.

    ``copies``: the gradient is brought into the order of ``x`` first.
    """

    def backward(_: Storage) -> None:
        conjugate, grad = tape.scratch(angles, DType.FP32), tape.scratch(x.numel, DType.FP32)
        tape.release(conjugate)
        tape.send(x, grad)

    y = tape.emit(x.numel, DType.FP32, inputs=(x,), backward=backward)
    return transpose(tape, y) if copies else y


def rotate_interleaved(tape: Tape, query: Value, key: Value, table: DType) -> tuple[Value, Value]:
    """Return both sides rotated by pairs of neighbours (DeepSeek-V3).

    The arguments are dropped.
    """
    halves = [
        (narrow(tape, x, _halve(x.numel)), narrow(tape, x, _halve(x.numel))) for x in (query, key)
    ]
    rotated = [_rotate_pairs(tape, even, odd, table) for even, odd in halves]
    tape.free(*(part for pair in halves for part in pair), query, key)
    return rotated[0], rotated[1]


def rotate_halves(tape: Tape, x: Value, table: DType) -> Value:
    """Return ``x`` rotated as two halves, joined again (gpt_oss).

    ``x`` stays with the caller.
    """
    half = _halve(x.numel)
    left, right = split(tape, tape.alias(x), (half, half))
    y = _rotate_pairs(tape, left, right, table)
    tape.free(left, right)
    return y


def _rotate_pairs(tape: Tape, even: Value, odd: Value, table: DType) -> Value:
    left, right = multiply_by_table(tape, even, table), multiply_by_table(tape, odd, table)
    first = _subtract(tape, left, right)
    tape.free(left, right)
    left, right = multiply_by_table(tape, odd, table), multiply_by_table(tape, even, table)
    second = add(tape, left, right)
    tape.free(left, right)
    y = concatenate(tape, (first, second))
    tape.free(first, second)
    return y


def _subtract(tape: Tape, left: Value, right: Value) -> Value:
    def backward(grad: Storage) -> None:
        tape.send(left, tape.hold(grad))
        tape.send(right, tape.scratch(right.numel, right.dtype))

    return tape.emit(left.numel, left.dtype, inputs=(left, right), backward=backward)


def _halve(numel: Size) -> Size:
    a, b, c, d, e, f = (part // 2 for part in numel)
    return (a, b, c, d, e, f)
