"""Keys and values of cross-attention.

A decoder's layer makes them of the encoder's output, once for all steps of a sequence.
"""

from service.estimator.model.recording import Recording
from service.estimator.model.shared_inputs import get_shared_inputs
from service.estimator.model.weights.tensors import Linear
from service.estimator.tape import sizes
from service.estimator.tape.ledger import Category
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops.elementwise import chain
from service.estimator.tape.ops.products import copy_contiguous


def get_cross_key_value(
    ctx: Recording, layers: tuple[Linear, Linear], scope: str, *, copies: bool = False
) -> tuple[Value, Value]:
    """Return key and value of all encoder positions.

    After the first step they are read from the cache. With ``copies``, each is copied to lie head
    after head.
    """
    shared_inputs = get_shared_inputs(ctx)
    if shared_inputs.memory is None:
        return _read_cached(ctx, layers[0]), _read_cached(ctx, layers[1])
    shape, ctx.shape = ctx.shape, shared_inputs.source
    key, value = (
        _project_side(ctx, layer, shared_inputs.memory, scope, copies=copies) for layer in layers
    )
    key, value = ctx.update_cache(key, value, layers[0].out_features)
    ctx.shape = shape
    return key, value


def _project_side(
    ctx: Recording, layer: Linear, memory: Value, scope: str, *, copies: bool
) -> Value:
    projected = ctx.linear(layer, memory, scope)
    return chain(ctx.tape, projected, copy_contiguous) if copies else projected


def _read_cached(ctx: Recording, layer: Linear) -> Value:
    """Return a cached tensor, whose bytes are counted with the cache."""
    size = get_shared_inputs(ctx).source.tokens(layer.out_features)
    return Value(ctx.tape.allocate(Category.TEMPORARIES, sizes.ZERO), size, ctx.settings.dtype)
