"""The loss over logits: shifted labels, log-softmax and negative log-likelihood."""

from service.estimator.dtypes import DType
from service.estimator.tape import sizes
from service.estimator.tape.graph import Tape
from service.estimator.tape.ledger import Category, Section, Storage
from service.estimator.tape.nodes import Value

INDEX_BYTES = 8
"""Labels are 64-bit integers."""


def shifted_labels(tape: Tape) -> tuple[Storage, Storage]:
    """Return the shifted labels and the padded ones that they were cut from: one storage for a single sequence."""
    shifted = sizes.add(sizes.per_token(INDEX_BYTES), sizes.per_sequence(INDEX_BYTES))
    padded = sizes.subtract(sizes.per_token(INDEX_BYTES), sizes.per_position(INDEX_BYTES))
    return tape.allocate(Category.ACTIVATIONS, shifted), tape.allocate(Category.ACTIVATIONS, padded)


def cross_entropy(tape: Tape, logits: Value, labels: Value) -> Value:
    """Return the mean loss: log-softmax keeps its output, the negative log-likelihood its labels.

    After the gradient of the log-softmax is made, the rest of backward begins.
    """
    one = sizes.constant(1)

    def log_softmax_backward(_: Storage) -> None:
        tape.send(logits, tape.allocate(Category.LOGITS, sizes.scale(logits.numel, 4)))
        tape.ledger.enter(Section.BACKWARD)

    def nll_backward(_: Storage) -> None:
        tape.send(probabilities, tape.allocate(Category.LOGITS, sizes.scale(logits.numel, 4)))

    probabilities = tape.emit(
        logits.numel,
        DType.FP32,
        inputs=(logits,),
        saves_output=True,
        category=Category.LOGITS,
        backward=log_softmax_backward,
    )
    loss = tape.emit(one, DType.FP32, inputs=(probabilities,), saves=(probabilities, labels), backward=nll_backward)
    tape.free(probabilities)
    return loss
