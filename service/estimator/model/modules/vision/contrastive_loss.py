"""Contrastive loss over pairs of images and texts (``CLIPModel.forward``)."""

from service.estimator.model.recording import Recording
from service.estimator.tape import sizes
from service.estimator.tape.graph import Tape
from service.estimator.tape.nodes import Parameter, Value, as_value
from service.estimator.tape.ops.elementwise import (
    activate_saving_output,
    add,
    autocast_to_fp32,
    chain,
    multiply,
    multiply_scalar,
    power,
)
from service.estimator.tape.ops.images import divide, reduce_sum
from service.estimator.tape.ops.loss.losses import cross_entropy
from service.estimator.tape.ops.products import allocate_integers, autocast_input, batched_product

ROWS = sizes.per_sequence(1)


def normalise_embeddings(tape: Tape, x: Value) -> Value:
    """Return ``x`` divided by its norm, row by row.

    ``x`` stays with the caller, whose outputs have it.
    """
    total = chain(tape, power(tape, x), lambda t, squared: reduce_sum(t, squared, ROWS))
    length = chain(tape, total, power)
    y = divide(tape, x, length)
    tape.free(length)
    return y


def compute_similarities(
    ctx: Recording, texts: Value, images: Value, scale: Parameter, num_pairs: int
) -> Value:
    """Return the scaled similarity of every text with every image.

    Both inputs stay with the caller.
    """
    tape, operands = ctx.tape, [autocast_input(ctx.tape, side) for side in (texts, images)]
    products = batched_product(tape, operands[0], operands[1], sizes.constant(num_pairs**2))
    factor = chain(tape, autocast_to_fp32(tape, as_value(scale)), activate_saving_output)
    tape.free(*operands)
    return chain(tape, products, lambda t, value: _scale(t, value, factor))


def _scale(tape: Tape, products: Value, factor: Value) -> Value:
    y = multiply(tape, products, factor, is_scalar=True)
    tape.free(factor)
    return y


def record_contrastive_loss(tape: Tape, logits: Value, num_pairs: int) -> Value:
    """Return the mean cross entropy over rows and columns.

    The logits stay with the caller.
    """
    losses = []
    for last in (True, False):
        labels = allocate_integers(tape, sizes.constant(num_pairs))
        losses.append(cross_entropy(tape, logits, labels, last=last))
        tape.free(labels)
    total = add(tape, losses[0], losses[1])
    half = multiply_scalar(tape, total)
    tape.free(total, *losses)
    return half
