"""Log-probabilities of labels, computed by TRL without the logits.

TRL 1.16 runs the head in tiles of tokens by vocabulary and folds each into a few numbers per row;
backward makes every tile again (``trl/kernels/chunked_logprob.py``, ``ChunkedLogProbFunction``).
"""

from dataclasses import dataclass

from service.estimator.tape import sizes
from service.estimator.tape.graph import Tape
from service.estimator.tape.ledger import Category, Section, Storage
from service.estimator.tape.nodes import Node, Parameter, Value, as_value, count_bytes
from service.estimator.tape.sizes import Size
from service.estimator.values.dtypes import DType

TILE_TOKENS, TILE_VOCAB = 4096, 32768
"""Rows and columns of a tile (``TOKEN_CHUNK_SIZE``, and ``_CHUNKED_LOGPROB_CHUNK_SIZE`` of
``trl/trainer/utils.py``).
"""
MAX_TOKENS = 2 * TILE_TOKENS
"""Tokens beyond which no further tile makes a difference: there are two copies of one at once."""
_NUM_STATISTICS = 7
"""Running numbers per row, in fp32; all are made, whichever are asked for."""
_INDEX_BYTES = 16
"""Row and column of a position that a boolean mask keeps (``nonzero``)."""
_BOOL = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The head's weight, bias and shape."""

    weight: Parameter
    bias: Parameter | None
    hidden_size: int
    vocab_size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """Numbers per position that a trainer logs beside the log-probabilities."""

    entropy: bool = False
    mean_logits: bool = False
    is_top1: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Labels:
    """Labels of a batch.

    ``num_tokens`` are those of this one, ``rows`` the same of any; None is every row.
    """

    num_tokens: int
    rows: Size | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogProbs:
    """Log-probabilities per position.

    ``names`` are the tensors that live as long as the outputs' names.
    """

    value: Value
    names: tuple[Storage, ...]


def drop_last_position(tape: Tape, x: Value, rows: Size, width: int) -> Value:
    """Return a view without the last position.

    Its gradient is put into zeros.
    """
    view = Value(x.storage, _widen(rows, width), x.dtype)
    tape.hold_value(view)
    if tape.builds_graph and x.requires_grad:
        view.node = tape.append(Node([], lambda _: tape.send(x, tape.scratch(x.numel, x.dtype))))
        view.requires_grad = True
    return view


def compute_log_probs(
    tape: Tape, hidden: Value, head: Head, rows: Size, *, labels: Labels, metrics: Metrics
) -> LogProbs:
    """Return the log-probability of every label.

    ``hidden`` stays with the caller.
    """
    scored = rows if labels.rows is None else labels.rows
    mask = tape.allocate(Category.ACTIVATIONS, sizes.scale(rows, _BOOL))
    chosen = _select_rows(tape, hidden, mask, scored, head.hidden_size)
    targets = tape.allocate(Category.ACTIVATIONS, sizes.scale(scored, 8))
    compact = _run_head(
        tape, (chosen, targets), head, scored, num_tokens=labels.num_tokens, metrics=metrics
    )
    tape.free(chosen)
    tape.release(targets)
    spread = _spread(tape, compact.value, mask, rows)
    names = (mask, *[_spread_storage(tape, storage, scored, rows) for storage in compact.names])
    tape.free(compact.value)
    tape.release(*compact.names)
    return LogProbs(value=spread, names=names)


def _select_rows(tape: Tape, x: Value, mask: Storage, scored: Size, width: int) -> Value:
    """Return a copy of the rows that a boolean mask keeps."""
    indices = tape.allocate(Category.ACTIVATIONS, sizes.scale(scored, _INDEX_BYTES))
    chosen = tape.emit(
        _widen(scored, width),
        x.dtype,
        inputs=(x,),
        saves=(Value(mask, x.numel, DType.FP32),),
        backward=lambda _: tape.send(x, tape.scratch(x.numel, x.dtype)),
    )
    tape.release(indices)
    return chosen


def _run_head(
    tape: Tape,
    rows_and_targets: tuple[Value, Storage],
    head: Head,
    rows: Size,
    *,
    num_tokens: int,
    metrics: Metrics,
) -> LogProbs:
    """Run the head tile by tile.

    Two numbers per row are left for backward, and what metrics have a name for.
    """
    (chosen, targets), vector = rows_and_targets, _count_fp32(rows)
    running = [tape.allocate(Category.ACTIVATIONS, vector) for _ in range(_NUM_STATISTICS)]
    tiles = _Tiles(tape, chosen, head, num_tokens)
    tiles.run(keeps_weights=False)
    logarithm = tape.allocate(Category.ACTIVATIONS, vector)
    log_z = tape.allocate(Category.ACTIVATIONS, vector)
    tape.release(logarithm)
    quotient = [tape.allocate(Category.ACTIVATIONS, vector) for _ in range(metrics.entropy)]
    entropy = [tape.allocate(Category.ACTIVATIONS, vector) for _ in range(metrics.entropy)]
    weight, bias = as_value(head.weight), None if head.bias is None else as_value(head.bias)
    saved = [(storage, chosen) for storage in (chosen.storage, targets, log_z, *entropy)]
    value = tape.emit(
        rows,
        DType.FP32,
        inputs=(chosen, weight) if bias is None else (chosen, weight, bias),
        saves=[Value(storage, like.numel, like.dtype) for storage, like in saved],
        backward=lambda _: _run_head_backward(tape, chosen, weight, bias, tiles),
    )
    tape.release(*quotient)
    means = [tape.allocate(Category.ACTIVATIONS, vector) for _ in range(metrics.mean_logits)]
    flags = _compare(tape, rows) if metrics.is_top1 else []
    tiles.release()
    tape.release(*running, log_z)
    return LogProbs(value=value, names=(*entropy, *means, *flags))


def _compare(tape: Tape, rows: Size) -> list[Storage]:
    """Return whether each target is the largest, both of two comparisons."""
    size = sizes.scale(rows, _BOOL)
    parts = [tape.allocate(Category.ACTIVATIONS, size) for _ in range(2)]
    both = tape.allocate(Category.ACTIVATIONS, size)
    tape.release(*parts)
    return [both]


def _run_head_backward(
    tape: Tape, chosen: Value, weight: Value, bias: Value | None, tiles: "_Tiles"
) -> None:
    """Make every tile again, with gradients in fp32.

    They are cast at the end.
    """
    targets = [
        value for value in (chosen, weight, bias) if value is not None and value.requires_grad
    ]
    grads = [tape.scratch(value.numel, DType.FP32) for value in targets]
    tiles.run(keeps_weights=True)
    results = [
        tape.hold(grad) if value.dtype is DType.FP32 else tape.scratch(value.numel, value.dtype)
        for value, grad in zip(targets, grads, strict=True)
    ]
    tape.release(*grads)
    tiles.release()
    tape.ledger.enter(Section.BACKWARD)
    for value, result in zip(targets, results, strict=True):
        tape.send(value, result)


class _Tiles:
    """Tiles of logits, with what is cast for them.

    A name for the rows, and in backward one for the weights, lives until the next is made.
    """

    def __init__(self, tape: Tape, chosen: Value, head: Head, num_tokens: int) -> None:
        """Set up without a tile."""
        self._tape, self._head = tape, head
        self._dtype = chosen.dtype if tape.autocast is None else tape.autocast
        self._casts_rows = chosen.dtype is not self._dtype
        self._casts_weights = head.weight.dtype is not self._dtype
        self._row_chunks = _cut(num_tokens, TILE_TOKENS)
        self._buffer: Storage | None = None
        self._rows: Storage | None = None
        self._weights: Storage | None = None

    def run(self, *, keeps_weights: bool) -> None:
        """Make every tile in one buffer.

        Only the last copies are left. Of sequences of one token no position has a next one: there
        is a buffer of no rows, and no tile.
        """
        num_buffer_rows = self._row_chunks[0] if self._row_chunks else 0
        self._buffer = self._allocate(Category.LOGITS, num_buffer_rows * TILE_VOCAB)
        for num_rows in self._row_chunks:
            if self._casts_rows:
                elements = num_rows * self._head.hidden_size
                self._rows = self._replace(self._rows, Category.ACTIVATIONS, elements)
            for columns in _cut(self._head.vocab_size, TILE_VOCAB) * self._casts_weights:
                self._cast_weights(columns, keeps=keeps_weights)

    def release(self) -> None:
        """Drop the buffer and the copies."""
        storages = (self._buffer, self._rows, self._weights)
        self._tape.release(*(storage for storage in storages if storage is not None))
        self._buffer = self._rows = self._weights = None

    def _cast_weights(self, columns: int, *, keeps: bool) -> None:
        elements = columns * self._head.hidden_size
        self._weights = self._replace(self._weights, Category.GATHERED_WEIGHTS, elements)
        if not keeps:
            self._tape.release(self._weights)
            self._weights = None

    def _replace(self, old: Storage | None, category: Category, elements: int) -> Storage:
        new = self._allocate(category, elements)
        if old is not None:
            self._tape.release(old)
        return new

    def _allocate(self, category: Category, elements: int) -> Storage:
        return self._tape.allocate(category, count_bytes(sizes.constant(elements), self._dtype))


def _cut(length: int, part: int) -> tuple[int, ...]:
    """Return the lengths of the first, second and last part."""
    parts = [min(part, length - start) for start in range(0, length, part)]
    return (*parts[:2], *parts[2:][-1:])


def _spread(tape: Tape, compact: Value, mask: Storage, rows: Size) -> Value:
    """Return a number for every position, 0 where the mask is not."""
    zeros = tape.allocate(Category.ACTIVATIONS, _count_fp32(rows))
    spread = tape.emit(
        rows,
        DType.FP32,
        inputs=(compact,),
        saves=(Value(mask, rows, DType.FP32),),
        backward=lambda _: tape.send(compact, tape.scratch(compact.numel, DType.FP32)),
    )
    tape.release(zeros)
    return spread


def _spread_storage(tape: Tape, storage: Storage, scored: Size, rows: Size) -> Storage:
    size = storage.size if scored == rows else _count_fp32(rows)
    zeros = tape.allocate(Category.ACTIVATIONS, size)
    spread = tape.allocate(Category.ACTIVATIONS, size)
    tape.release(zeros)
    return spread


def _count_fp32(rows: Size) -> Size:
    return count_bytes(rows, DType.FP32)


def _widen(rows: Size, width: int) -> Size:
    return sizes.scale(rows, width)
