"""What a loop over layers has names for beside the hidden state."""

from collections.abc import Iterator
from contextlib import contextmanager

from service.estimator.model.recording import Recording
from service.estimator.tape import sizes
from service.estimator.tape.graph import Mode
from service.estimator.tape.ledger import Category, Storage
from service.estimator.tape.nodes import bytes_of
from service.estimator.values.dtypes import DType


def compute_dtype(run: Recording) -> DType:
    """Return the dtype of products."""
    return run.tape.autocast or run.dtype


def scores_of_previous_layer(run: Recording, num_heads: int) -> Storage:
    """Return the attention scores that the previous layer handed out, which live until this layer hands out its own.

    In a graph they are kept anyway, so that they cost something only where none is built; the first layer is counted as the
    others are, which are higher.
    """
    counted = run.tape.mode in {Mode.INFERENCE, Mode.DISCARDING}
    size = bytes_of(run.extent.scores(num_heads), compute_dtype(run)) if counted else sizes.ZERO
    return run.tape.allocate(Category.ACTIVATIONS, size)


@contextmanager
def weights_named(run: Recording) -> Iterator[None]:
    """Keep the weights that eager attention hands out until the layer ends: ``attended, _ = self.attention(...)``."""
    if run.names is not None:  # a layer around this one ends them
        yield
        return
    names: list[Storage] = []
    run.names = names
    yield
    run.tape.release(*names)
    run.names = None
