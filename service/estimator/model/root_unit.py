"""Root unit of sharded parameters: all that is outside of layers."""

from service.estimator.model.architecture import Architecture
from service.estimator.model.recording import Recording
from service.estimator.model.unit_elements import list_adapter_factors
from service.estimator.model.weights.tensors import count_padded_elements
from service.estimator.tape.units import FsdpConfig


def count_root_adapters(ctx: Recording, model: Architecture, gathering: FsdpConfig) -> int:
    """Return the elements of adapters on linear layers of the root unit.

    Such are projections next to an embedding, and a head's own layers; layers of a tower are units.
    """
    if ctx.settings.lora is None:
        return 0
    in_units = {*model.tower_layer_weights}
    linears = [layer for layer in model.outer_linears if in_units.isdisjoint(layer.weights())]
    return count_padded_elements(list_adapter_factors(ctx, (), linears), gathering.uneven_ranks)


def count_trained_outside(ctx: Recording, model: Architecture, unread: frozenset[str]) -> int:
    """Return the elements outside of the layers that get a gradient.

    They are trained, and read: not of an image tower left idle, or of a pooler. ``unread`` are the
    names of tensors that a recorded pass does not read.
    """
    outside, images = model.root_elements, model.images
    idle = (
        model.never_trained | unread
        if images is None
        else images.get_idle_names(ctx.settings.images)
    )
    if not ctx.settings.frozen and not idle:
        return outside
    block_weights = {weight for block, _ in model.blocks for weight in block.weights()} | {
        *model.tower_layer_weights
    }
    return outside - sum(
        weight.numel
        for weight, _ in model.weights()
        if weight not in block_weights and (weight.name in idle or not ctx.is_trained(weight))
    )
