"""Logits of every position, and the log-probabilities that are read from them."""

from service.estimator.model.recording import Recording
from service.estimator.passes.step import ModelWalk
from service.estimator.tape import sizes
from service.estimator.tape.graph import Tape
from service.estimator.tape.ledger import Category, Section, Storage
from service.estimator.tape.nodes import Value, count_bytes
from service.estimator.tape.ops.elementwise import add, cast, chain
from service.estimator.tape.ops.loss.log_probs import drop_last_position
from service.estimator.tape.ops.products import end_autocast
from service.estimator.tape.sizes import Size
from service.estimator.values.dtypes import DType

ENTROPY_ROWS = 128
ENTROPY_TENSORS = 3
"""Rows that an entropy is computed of at once, and tensors of them: logarithms, probabilities and
their products.
"""


def record_logits(walk: ModelWalk, hidden: Value) -> Value:
    """Record the head; ``hidden`` stays with the caller."""
    model = walk.model
    logits = walk.record_logits(hidden, walk.ctx.shape.tokens(model.vocab_size))
    return logits if model.finish_logits is None else model.finish_logits(walk.ctx, logits)


def record_second_pass(walk: ModelWalk) -> ModelWalk:
    """Record a batch once more, for its logits; return that walk.

    Losses that make none have it where somebody reads them (TRL 1.16
    ``trl/trainer/sft_trainer.py``, ``compute_loss`` with ``return_outputs``).
    """
    tape, context = walk.tape, walk.ctx
    again = type(walk)(walk.model, Recording(tape, context.settings, units=walk.units))
    tape.ledger.enter(Section.FORWARD)
    hidden = again.hidden_states(Value(None, context.shape.tokens(1), DType.FP32))
    again.drop_tables()
    tape.ledger.enter(Section.LOSS_FORWARD)
    again.logits = record_logits(again, hidden)
    tape.free(hidden)
    end_autocast(tape)
    return again


def convert_outputs(walk: ModelWalk, *, keeps_logits: bool) -> tuple[Value, ...]:
    """Cast what the model returns to fp32.

    Return what is kept of it.

    All copies are made before anything is dropped (accelerate 1.15
    ``utils/operations.py``, ``ConvertOutputsToFp32``).
    """
    tape, outputs = walk.tape, walk.returned()
    copies = tuple([_copy_in_fp32(tape, value) for value in outputs])
    tape.free(*outputs)
    if keeps_logits:
        return copies
    tape.free(*copies)
    return ()


def _copy_in_fp32(tape: Tape, value: Value) -> Value:
    """Return a copy outside of the graph; fp32 is its own."""
    if value.dtype is DType.FP32:
        return tape.alias(value)
    copy = tape.allocate(Category.LOGITS, count_bytes(value.numel, DType.FP32))
    return Value(copy, value.numel, DType.FP32)


def record_upcast_log_probs(walk: ModelWalk, hidden: Value, rows: Size) -> tuple[Value, Value]:
    """Return the log-probability of every label, and the logits in fp32.

    ``hidden`` is dropped. What the model returns is cast once autocast is over, and its
    log-softmax is another tensor of that size (LLaMA-Factory 0.9.5 ``train/trainer_utils.py``,
    ``get_batch_logps``).
    """
    tape, logits = walk.tape, record_returned(walk, hidden, upcasts=True)
    view = drop_last_position(tape, logits, rows, walk.model.vocab_size)
    log_probs = chain(tape, view, _log_softmax)
    return chain(tape, log_probs, lambda t, x: _gather(t, x, rows)), logits


def record_selective_log_probs(walk: ModelWalk, hidden: Value, rows: Size) -> tuple[Value, Value]:
    """Return the log-probability of every label, and the logits.

    ``hidden`` is dropped. accelerate casts to fp32 what leaves autocast.
    """
    logits = record_returned(walk, hidden, upcasts=walk.tape.autocast is not None)
    return score_selectively(walk, logits, rows, ends_loss=True), logits


def score_selectively(walk: ModelWalk, logits: Value, rows: Size, *, ends_loss: bool) -> Value:
    """Return the log-probability of every label; the logits stay with the caller."""
    view = drop_last_position(walk.tape, logits, rows, walk.model.vocab_size)
    return score_view(walk.tape, view, rows, ends_loss=ends_loss)


def score_view(tape: Tape, view: Value, rows: Size, *, ends_loss: bool) -> Value:
    """Return the log-probability of a label for each row; ``view`` is dropped.

    Each sequence's logsumexp keeps logits in fp32, of others its log-softmax is kept (TRL 1.8
    ``trainer/utils.py``, ``selective_log_softmax``). Gradients of all sequences are stacked.
    ``ends_loss``: the rest of backward begins with theirs.
    """
    upcasts = view.dtype is DType.FP32
    size = count_bytes(view.numel, view.dtype)

    def stack(_: Storage) -> None:
        # A log-softmax gives way to its gradient, sequence by sequence.
        pieces = [tape.allocate(Category.LOGITS, size) for _ in range(upcasts)]
        stacked = tape.allocate(Category.LOGITS, size)
        tape.release(*pieces)
        if ends_loss:
            tape.ledger.enter(Section.BACKWARD)
        tape.send(view, stacked)

    if not upcasts:
        kept = tape.emit(
            view.numel,
            view.dtype,
            inputs=(view,),
            saves_output=True,
            category=Category.LOGITS,
            backward=stack,
        )
        tape.free(view)
        return chain(tape, kept, lambda t, x: _gather_each(t, x, rows))
    chosen = _gather(tape, view, rows)
    sums = tape.emit(rows, view.dtype, inputs=(view,), saves=(view,), backward=stack)
    tape.free(view)
    log_probs = add(tape, chosen, sums)
    tape.free(chosen, sums)
    return log_probs


def record_entropy(walk: ModelWalk, rows: Size, dtype: DType) -> None:
    """Record the entropy of every position, which is logged.

    A slice of the logits is copied, and three tensors are made of some rows at a time (TRL 1.8
    ``entropy_from_logits``).
    """
    tape, row_bytes = walk.tape, walk.model.vocab_size * dtype.bytes_per_element
    copy = tape.allocate(Category.LOGITS, sizes.scale(rows, row_bytes))
    chunk = sizes.constant(ENTROPY_ROWS * row_bytes)
    chunks = [tape.allocate(Category.LOGITS, chunk) for _ in range(ENTROPY_TENSORS)]
    tape.release(*chunks, copy)


def record_returned(walk: ModelWalk, hidden: Value, *, upcasts: bool) -> Value:
    """Return the logits as whoever called the model gets them; drop ``hidden``."""
    tape, logits = walk.tape, record_logits(walk, hidden)
    tape.free(hidden)
    end_autocast(tape)
    if not upcasts:
        return logits
    return chain(tape, logits, lambda t, x: cast(t, x, DType.FP32, category=Category.LOGITS))


def _gather_each(tape: Tape, x: Value, rows: Size) -> Value:
    """Return one number of each row; gradients pass on by sequence."""
    return tape.emit(
        rows, x.dtype, inputs=(x,), backward=lambda grad: tape.send(x, tape.hold(grad))
    )


def _log_softmax(tape: Tape, x: Value) -> Value:
    def backward(_: Storage) -> None:
        tape.send(x, tape.allocate(Category.LOGITS, count_bytes(x.numel, x.dtype)))
        tape.ledger.enter(Section.BACKWARD)

    return tape.emit(
        x.numel,
        x.dtype,
        inputs=(x,),
        saves_output=True,
        category=Category.LOGITS,
        backward=backward,
    )


def _gather(tape: Tape, x: Value, rows: Size) -> Value:
    """Return one number of each row, whose gradient is put into zeros."""

    def backward(_: Storage) -> None:
        tape.send(x, tape.allocate(Category.LOGITS, count_bytes(x.numel, x.dtype)))

    return tape.emit(rows, x.dtype, inputs=(x,), saves=(x,), backward=backward)
