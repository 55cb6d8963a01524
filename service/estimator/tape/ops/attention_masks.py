"""Masks of attention, biases made of them, sums of rows."""

from collections.abc import Callable, Iterable, Sequence

from service.estimator.tape import sizes
from service.estimator.tape.graph import Tape
from service.estimator.tape.ledger import Category, Storage
from service.estimator.tape.nodes import Value, count_bytes
from service.estimator.tape.ops.attention_heads import Heads
from service.estimator.tape.pass_shape import PassShape
from service.estimator.tape.sizes import Size
from service.estimator.values.dtypes import DType

_MakeCondition = Callable[[], Storage]
_Part = tuple[_MakeCondition, Size]
RANDOM_STATE_BYTES = 24
"""Philox seed and offset that flash attention returns, and keeps, even without dropout."""
SEED_BYTES = 16
"""Philox seed and offset that memory-efficient attention returns, and keeps, even without dropout.
"""


def allocate_flash_sums(tape: Tape, heads: Heads) -> tuple[Value, Value]:
    """Return flash attention's sum of each row, and its random state."""
    numbers = sizes.scale(heads.rows, DType.FP32.bytes_per_element)
    return (
        Value(tape.allocate(Category.ACTIVATIONS, numbers), heads.rows, DType.FP32),
        Value(
            tape.allocate(Category.ACTIVATIONS, sizes.constant(RANDOM_STATE_BYTES)),
            sizes.ZERO,
            DType.FP32,
        ),
    )


def allocate_row_sums(tape: Tape, parts: Sequence[Value], heads: Heads) -> Value:
    """Return a sum of each row, which backward reads.

    Without a graph it gives none (ATen ``transformers/attention.cpp``,
    ``should_compute_logsumexp``).
    """
    is_kept = tape.builds_graph and tape.enables_grad and any(part.requires_grad for part in parts)
    rows = (heads.aligned_rows or heads.rows) if is_kept else sizes.ZERO
    size = sizes.add(sizes.scale(rows, 4), sizes.constant(SEED_BYTES))
    return Value(tape.allocate(Category.ACTIVATIONS, size), heads.rows, DType.FP32)


def make_mask_bias(tape: Tape, query: Value, heads: Heads) -> tuple[Value, ...]:
    """Return the bias that SDPA makes of a boolean mask, if any."""
    if heads.bias is None:
        return ()
    return (
        Value(
            tape.allocate(Category.ACTIVATIONS, count_bytes(heads.bias, query.dtype)),
            heads.bias,
            query.dtype,
        ),
    )


def align_mask_bias(
    tape: Tape, masks: tuple[Value, ...], heads: Heads
) -> tuple[tuple[Value, ...], tuple[Value, ...]]:
    """Return all biases, and the one that is kept.

    It is copied to have rows of the kernel's alignment; the caller holds the first one until the
    kernel is through (ATen ``transformers/attention.cpp``, ``preprocess_mask``).
    """
    padded = heads.padded_bias
    if not masks or padded is None or padded == heads.bias:
        return masks, masks
    dtype = masks[0].dtype
    size = count_bytes(padded, dtype)
    aligned_bias = Value(tape.allocate(Category.ACTIVATIONS, size), padded, dtype)
    return (*masks, aligned_bias), (aligned_bias,)


def make_causal_bias(tape: Tape, dtype: DType, heads: Heads) -> tuple[Value, ...]:
    """Return the bias that the math kernel makes for causal queries.

    It is for all sequences together.
    """
    if heads.causal_mask is None:
        return ()
    return (
        Value(
            tape.allocate(Category.ACTIVATIONS, count_bytes(heads.causal_mask, dtype)),
            heads.causal_mask,
            dtype,
        ),
    )


def make_causal_mask(
    tape: Tape, shape: PassShape, *, has_window: bool, padded: bool, dtype: DType | None
) -> Storage:
    """Return a mask of what each query reads, put together from booleans.

    Every condition is one for each query and key; eager attention's mask is made of the result
    (transformers 5.23 ``masking_utils.py``, ``and_masks``, ``sdpa_mask`` and ``eager_mask``).
    ``shape`` is that of the positions read; ``padded`` masks come of a mask of tokens, one for each
    sequence. In ``dtype`` it is added to the scores; None is a boolean.
    """
    shared, every = shape.shared_mask(1), shape.mask(1)

    def compare() -> Storage:
        return tape.allocate(Category.ACTIVATIONS, shared)

    def compare_in_window() -> Storage:
        return _join(tape, [(compare, shared)] * 2)

    def read_padding() -> Storage:
        return tape.allocate(Category.ACTIVATIONS, shape.cached(1))

    make = compare_in_window if has_window else compare
    mask = _join(tape, [(make, shared), (read_padding, every)]) if padded else make()
    if dtype is None:
        return mask
    added = tape.allocate(Category.ACTIVATIONS, shape.mask(dtype.bytes_per_element))
    tape.release(mask)
    return added


def _join(tape: Tape, parts: Iterable[_Part]) -> Storage:
    """Return a boolean where all conditions hold.

    Each comes with the size of what holds up to it.
    """
    results: list[Storage] = []
    for make, size in parts:
        condition = make()
        results.append(tape.allocate(Category.ACTIVATIONS, size))
        tape.release(condition, *results[:-1])
        del results[:-1]
    return results[0]
