"""Keys and values that a decoder's layer makes of what the encoder gave, once for all steps of a sequence."""

from service.estimator.model.recording import Recording
from service.estimator.model.shared_inputs import passing_of
from service.estimator.model.weights.tensors import Linear
from service.estimator.tape import sizes
from service.estimator.tape.ledger import Category
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops.elementwise import chain
from service.estimator.tape.ops.products import copy_of


def memorised(run: Recording, layers: tuple[Linear, Linear], scope: str, *, copies: bool = False) -> tuple[Value, Value]:
    """Return key and value of all positions of the encoder; after the first step they are read from the cache.

    ``copies``: each is copied to lie head after head.
    """
    passing = passing_of(run)
    if passing.memory is None:
        return _stored(run, layers[0]), _stored(run, layers[1])
    own, run.extent = run.extent, passing.source
    key, value = (_made(run, layer, passing.memory, scope, copies=copies) for layer in layers)
    key, value = run.cached(key, value, layers[0].out_features)
    run.extent = own
    return key, value


def _made(run: Recording, layer: Linear, memory: Value, scope: str, *, copies: bool) -> Value:
    made = run.linear(layer, memory, scope)
    return chain(run.tape, made, copy_of) if copies else made


def _stored(run: Recording, layer: Linear) -> Value:
    """Return a tensor of the cache, whose bytes are counted with it."""
    size = passing_of(run).source.tokens(layer.out_features)
    return Value(run.tape.allocate(Category.TEMPORARIES, sizes.ZERO), size, run.dtype)
