"""Attention weights and scores that the loop over layers keeps.

They have names there beside the hidden state.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from service.estimator.model.recording import Recording
from service.estimator.tape import sizes
from service.estimator.tape.graph import Mode
from service.estimator.tape.ledger import Category, Storage
from service.estimator.tape.nodes import Value, count_bytes
from service.estimator.values.dtypes import DType


def compute_dtype(ctx: Recording) -> DType:
    """Return the dtype of products."""
    return ctx.tape.autocast or ctx.settings.dtype


def hold_previous_scores(ctx: Recording, num_heads: int) -> Storage:
    """Allocate the attention scores that the previous layer returned.

    They live until this layer returns its own. In a graph they are kept anyway, so that they cost
    something only where none is built; the first layer is counted as the others are, which are
    higher.
    """
    counted = ctx.tape.mode in {Mode.INFERENCE, Mode.DISCARDING}
    size = (
        count_bytes(ctx.get_read_shape(None).scores(num_heads), compute_dtype(ctx))
        if counted
        else sizes.ZERO
    )
    return ctx.tape.allocate(Category.ACTIVATIONS, size)


def return_weights(ctx: Recording, weights: Value) -> None:
    """Drop a block's name of weights that it returns.

    They live on where a reentrant checkpoint runs their backward.
    """
    if ctx.tape.returned is None:
        ctx.tape.free(weights)
    else:
        ctx.tape.returned.append(weights)


@contextmanager
def keep_attention_weights(ctx: Recording) -> Iterator[None]:
    """Keep the weights of eager attention until the layer ends.

    (``attended, _ = self.attention(...)``.)
    """
    if ctx.layer_locals is not None:  # a layer around this one ends them
        yield
        return
    names: list[Storage] = []
    ctx.layer_locals = names
    yield
    ctx.tape.release(*names)
    ctx.layer_locals = None
