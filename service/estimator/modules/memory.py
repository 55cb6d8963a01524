"""Keys and values that a decoder's layer makes of what the encoder gave, once for all steps of a sequence."""

from service.estimator.modules.weights import Linear
from service.estimator.passing import passing_of
from service.estimator.recording import Recording
from service.estimator.tape import sizes
from service.estimator.tape.ledger import Category
from service.estimator.tape.nodes import Value


def memorised(run: Recording, layers: tuple[Linear, Linear], scope: str) -> tuple[Value, Value]:
    """Return key and value of all positions of the encoder; after the first step they are read from the cache."""
    passing = passing_of(run)
    if passing.memory is None:
        return _stored(run, layers[0]), _stored(run, layers[1])
    own, run.extent = run.extent, passing.source
    key, value = (run.linear(layer, passing.memory, scope) for layer in layers)
    key, value = run.cached(key, value, layers[0].out_features)
    run.extent = own
    return key, value


def _stored(run: Recording, layer: Linear) -> Value:
    """Return a tensor of the cache, whose bytes are counted with it."""
    size = passing_of(run).source.tokens(layer.out_features)
    return Value(run.tape.allocate(Category.TEMPORARIES, sizes.ZERO), size, run.dtype)
