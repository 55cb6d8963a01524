"""Rows of sequences out of rows of tokens: means and last ones."""

from dataclasses import dataclass

from service.estimator.tape import sizes
from service.estimator.tape.graph import Tape
from service.estimator.tape.ledger import Storage
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops.elementwise import cast, chain
from service.estimator.tape.ops.products import allocate_integers
from service.estimator.tape.sizes import Size
from service.estimator.values.dtypes import DType

_INT32_BYTES = 4


def find_last_tokens(tape: Tape) -> tuple[Value, tuple[Value, ...]]:
    """Return the index of each sequence's last token, and named tensors.

    ``(arange * (ids != pad)).argmax(-1)`` in 32-bit integers (transformers 5.23
    ``modeling_layers.py``).
    """
    tokens, positions = sizes.per_token(1), sizes.per_position(1)
    is_token = allocate_integers(tape, tokens, bytes_each=1)
    mask = allocate_integers(tape, tokens, bytes_each=_INT32_BYTES)
    tape.free(is_token)
    places = allocate_integers(tape, positions, bytes_each=_INT32_BYTES)
    products = allocate_integers(tape, tokens, bytes_each=_INT32_BYTES)
    last = allocate_integers(tape, sizes.per_sequence(1))
    tape.free(products)
    return last, (mask, places)


def take_last(tape: Tape, x: Value, last: Value, numel: Size) -> Value:
    """Return a copy of one row of each sequence.

    The gradient is put into zeros of the size of ``x``.
    """
    rows = allocate_integers(tape, sizes.per_sequence(1))

    def backward(_: Storage) -> None:
        tape.send(x, tape.scratch(x.numel, x.dtype))

    y = tape.emit(numel, x.dtype, inputs=(x,), saves=(rows, last), backward=backward)
    tape.free(rows)
    return y


@dataclass(frozen=True, slots=True, kw_only=True)
class Averaging:
    """Settings of a mean over tokens.

    ``mask_bytes`` are those of an element of the mask of padding where one is made, 0 where the
    batch brings it; ``casts`` says that the mask is cast to the number format of what is averaged,
    ``in_fp32`` that sums are.
    """

    mask_bytes: int
    casts: bool
    in_fp32: bool


def pool_mean(tape: Tape, x: Value, width: int, averaging: Averaging) -> Value:
    """Return the mean of ``width`` features over the tokens of each sequence.

    ``x`` stays with the caller.
    """
    row = sizes.per_sequence(width)
    padding = allocate_integers(tape, sizes.per_token(1), bytes_each=averaging.mask_bytes)
    mask = (
        allocate_integers(tape, sizes.per_token(1), bytes_each=x.dtype.bytes_per_element)
        if averaging.casts
        else tape.alias(padding)
    )
    product = _multiply_by_mask(tape, x, mask)
    dtype = DType.FP32 if averaging.in_fp32 else x.dtype
    total = chain(tape, product, lambda t, value: _sum_tokens(t, value, row, dtype))
    width_of_count = 4 if averaging.in_fp32 else 8
    count = allocate_integers(tape, sizes.per_sequence(1), bytes_each=width_of_count)
    mean = _divide_rows(tape, total, count)
    pooled = cast(tape, mean, x.dtype)
    tape.free(total, mean, count, mask, padding)
    return pooled


def _multiply_by_mask(tape: Tape, x: Value, mask: Value) -> Value:
    return tape.emit(
        x.numel,
        x.dtype,
        inputs=(x,),
        saves=(mask,),
        backward=lambda _: tape.send(x, tape.scratch(x.numel, x.dtype)),
    )


def _sum_tokens(tape: Tape, x: Value, row: Size, dtype: DType) -> Value:
    """Return the sum over tokens; its gradient is a view or cast."""

    def backward(grad: Storage) -> None:
        if dtype is x.dtype:
            tape.send(x, tape.hold(grad), is_view=True)
        else:
            tape.send(x, tape.scratch(x.numel, x.dtype))

    return tape.emit(row, dtype, inputs=(x,), backward=backward)


def _divide_rows(tape: Tape, x: Value, count: Value) -> Value:
    """Return each row divided by its number of tokens."""
    return tape.emit(
        x.numel,
        x.dtype,
        inputs=(x,),
        saves=(count,),
        backward=lambda _: tape.send(x, tape.scratch(x.numel, x.dtype)),
    )
