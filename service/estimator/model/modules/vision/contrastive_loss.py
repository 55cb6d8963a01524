"""Pairs of images and texts held against each other (``CLIPModel.forward``)."""

from service.estimator.model.recording import Recording
from service.estimator.tape import sizes
from service.estimator.tape.graph import Tape
from service.estimator.tape.nodes import Parameter, Value, value_of
from service.estimator.tape.ops.elementwise import add, chain, from_output, in_fp32, multiply, power
from service.estimator.tape.ops.images import divide, sum_of_last
from service.estimator.tape.ops.losses import cross_entropy
from service.estimator.tape.ops.products import autocast_input, batched_product, integers

ROWS = sizes.per_sequence(1)


def unit_length(tape: Tape, x: Value) -> Value:
    """Return ``x`` over its norm, row by row; ``x`` stays with the caller, whose outputs have it."""
    total = chain(tape, power(tape, x), lambda t, squared: sum_of_last(t, squared, ROWS))
    length = chain(tape, total, power)
    y = divide(tape, x, length)
    tape.free(length)
    return y


def similarities(run: Recording, texts: Value, images: Value, scale: Parameter, num_pairs: int) -> Value:
    """Return the scaled similarity of every text with every image; both stay with the caller."""
    tape, sides = run.tape, [autocast_input(run.tape, side) for side in (texts, images)]
    products = batched_product(tape, sides[0], sides[1], sizes.constant(num_pairs**2))
    factor = chain(tape, in_fp32(tape, value_of(scale)), from_output)
    tape.free(*sides)
    return chain(tape, products, lambda t, value: _scaled(t, value, factor))


def _scaled(tape: Tape, products: Value, factor: Value) -> Value:
    y = multiply(tape, products, factor)
    tape.free(factor)
    return y


def contrastive_loss(tape: Tape, logits: Value, num_pairs: int) -> Value:
    """Return the mean of both cross entropies, of the rows and of the columns; the logits stay with the caller."""
    losses = []
    for last in (True, False):
        labels = integers(tape, sizes.constant(num_pairs))
        losses.append(cross_entropy(tape, logits, labels, last=last))
        tape.free(labels)
    total = add(tape, losses[0], losses[1])
    tape.free(*losses)
    return total
