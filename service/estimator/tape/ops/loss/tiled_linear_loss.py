"""Unsloth's loss, with the head inside.

unsloth_zoo 2026.10 ``fused_losses/fused_linear.py``, ``_ce_impl``: gradients are made in forward,
from fp32 logits of some rows, or of a tile of rows and words where the head is not trained. Chunks
and tiles have sizes of their own; free memory decides them below 4 GiB alone (``_budget_bytes``).
"""

from dataclasses import dataclass

from service.estimator.tape import sizes
from service.estimator.tape.graph import Tape
from service.estimator.tape.ledger import Category, Section, Storage
from service.estimator.tape.nodes import Parameter, Value, Work, as_value, count_bytes
from service.estimator.tape.sizes import Size
from service.estimator.values.dtypes import DType
from service.estimator.values.units import GIB, MIB, ceil_div

_WORDS = 16384
"""Words of a tile (``_SPLIT_COLS``)."""
_MAX_ROWS = 4096
_MIN_ROWS = 512
_MIN_LOGITS = 512 * 151936
_CHUNK_BYTES = 2 * GIB
_TILE_BYTES = 256 * MIB
_SUMS = {True: 8, False: 7}
"""Sums per row and stretch of words, of tiles and of chunks."""
_MIN_STRETCHES = 3
"""Stretches of words from which on there are tiles (``_tiled_vocab``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LossRows:
    """Rows that the loss takes at once."""

    chunk: int
    tile: int
    tiles: bool
    """Whether a frozen head's loss goes by tiles: of many rows, or on a GPU of at most 24.5 GiB."""


def count_loss_rows(tokens: int, *, hidden_size: int, vocab_size: int) -> LossRows:
    """Return the rows that the loss takes at once of some tokens.

    (``fused_linear_rows``: as many logits as the input has elements, a power of two;
    ``_tiled_layout``, ``_flash_min_rows``.)
    """
    minimum = min(max(_floor_power(_MIN_LOGITS // vocab_size), _MIN_ROWS), _MAX_ROWS)
    rows = max(_floor_power(tokens * hidden_size // vocab_size), minimum)
    cap = max(_CHUNK_BYTES // (vocab_size * DType.FP32.bytes_per_element), 2)
    tile = _TILE_BYTES // (_WORDS * DType.FP32.bytes_per_element)
    return LossRows(
        chunk=min(rows, _MAX_ROWS, cap, tokens),
        tile=min(_MAX_ROWS, tile, tokens) if ceil_div(vocab_size, _WORDS) >= _MIN_STRETCHES else 0,
        tiles=tokens >= _MAX_ROWS,
    )


def compute_tiled_loss(
    tape: Tape, hidden: Value, head: Parameter, rows: LossRows, *, vocab_size: int
) -> Value:
    """Return the loss of rows whose gradients are made at once.

    It keeps the gradients of its input and of a trained head; backward scales copies of them.
    """
    weight, trains = as_value(head), head.trainable and tape.builds_graph
    indices = tape.allocate(Category.ACTIVATIONS, sizes.per_token(8))
    sources = [hidden] if hidden.requires_grad and tape.builds_graph else []
    grads = [
        tape.allocate(Category.TEMPORARIES, count_bytes(value.numel, value.dtype))
        for value in (*sources, *([weight] if trains else []))
    ]
    targets = [hidden] * len(sources) + [weight] * trains
    is_tiled = rows.tiles and rows.tile > 0 and not trains
    _run_rows(tape, hidden, head, rows, vocab_size, is_tiled=is_tiled)

    def backward(_: Storage) -> None:
        copies = [tape.scratch(target.numel, target.dtype) for target in targets]
        tape.ledger.enter(Section.BACKWARD)
        for target, copy in zip(targets, copies, strict=True):
            tape.send(target, copy)

    saved = [
        Value(grad, target.numel, target.dtype) for grad, target in zip(grads, targets, strict=True)
    ]
    loss = tape.emit(
        sizes.constant(1), DType.FP32, inputs=(hidden, weight), saves=saved, backward=backward
    )
    tape.release(indices, *grads)
    return loss


def _run_rows(
    tape: Tape, hidden: Value, head: Parameter, rows: LossRows, vocab_size: int, *, is_tiled: bool
) -> None:
    """Make the logits of one chunk or tile, and their gradients."""
    dtype = tape.autocast or hidden.dtype
    width = head.numel // vocab_size
    count = rows.tile if is_tiled else rows.chunk
    statistics = count_bytes(sizes.per_token(1 + is_tiled), DType.FP32)
    buffers = [tape.allocate(Category.ACTIVATIONS, statistics)]
    if head.dtype is not dtype:
        buffers.append(_allocate(tape, Category.GATHERED_WEIGHTS, head.numel, dtype))
    words = _WORDS if is_tiled else ceil_div(vocab_size, 8) * 8
    buffers.append(_allocate(tape, Category.LOGITS, count * words, DType.FP32))
    if is_tiled:
        buffers.append(_allocate(tape, Category.TEMPORARIES, count * width, DType.FP32))
    copied = _make(tape, count * width, dtype, Work.MOVE)
    stretches = ceil_div(vocab_size, _WORDS)
    sums = _allocate(tape, Category.TEMPORARIES, _SUMS[is_tiled] * stretches * count, DType.FP32)
    tape.release(sums)
    if tape.builds_graph and not is_tiled:
        product = _make(tape, count * width, DType.FP32, Work.PRODUCT)
        tape.free(_make(tape, count * width, hidden.dtype, Work.MOVE), product)
    tape.free(copied)
    tape.release(*buffers)


def _allocate(tape: Tape, category: Category, elements: int, dtype: DType) -> Storage:
    return tape.allocate(category, sizes.constant(elements * dtype.bytes_per_element))


def _make(tape: Tape, elements: int, dtype: DType, work: Work) -> Value:
    numel: Size = sizes.constant(elements)
    return tape.emit(numel, dtype, inputs=(), work=work, backward=lambda _: None)


def _floor_power(number: int) -> int:
    """Return the largest power of two up to a number."""
    return 1 << max(number.bit_length() - 1, 0)
