"""Logits of every position, and the log-probabilities that are read from them."""

from service.estimator.passes.step import ModelWalk
from service.estimator.tape.graph import Tape
from service.estimator.tape.ledger import Category, Section, Storage
from service.estimator.tape.nodes import Value, count_bytes
from service.estimator.tape.ops.elementwise import cast, chain
from service.estimator.tape.ops.loss.log_probs import drop_last_position
from service.estimator.tape.ops.products import end_autocast
from service.estimator.tape.sizes import Size
from service.estimator.values.dtypes import DType


def record_logits(walk: ModelWalk, hidden: Value) -> Value:
    """Record the head; ``hidden`` stays with the caller."""
    model = walk.model
    logits = walk.record_logits(hidden, walk.ctx.shape.tokens(model.vocab_size))
    return logits if model.finish_logits is None else model.finish_logits(walk.ctx, logits)


def record_upcast_log_probs(walk: ModelWalk, hidden: Value, rows: Size) -> tuple[Value, Value]:
    """Return the log-probability of every label, and the logits in fp32.

    ``hidden`` is dropped. What the model returns is cast once autocast is over, and its
    log-softmax is another tensor of that size (LLaMA-Factory 0.9.5 ``train/trainer_utils.py``,
    ``get_batch_logps``).
    """
    tape, logits = walk.tape, record_logits(walk, hidden)
    tape.free(hidden)
    end_autocast(tape)
    logits = chain(tape, logits, lambda t, x: cast(t, x, DType.FP32, category=Category.LOGITS))
    view = drop_last_position(tape, logits, rows, walk.model.vocab_size)
    log_probs = chain(tape, view, _log_softmax)
    return chain(tape, log_probs, lambda t, x: _gather(t, x, rows)), logits


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
