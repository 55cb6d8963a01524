"""Root unit of sharded parameters: all that is outside of layers."""

from service.estimator.model.architecture import Architecture
from service.estimator.model.recording import Recording
from service.estimator.model.unit_elements import list_adapter_factors
from service.estimator.model.weights.tensors import count_padded_elements
from service.estimator.tape.units import FsdpConfig, ShardedUnits


def open_joint_root(ctx: Recording, model: Architecture, units: ShardedUnits) -> None:
    """Gather the root unit, head and all."""
    added, _ = count_added_to_root(ctx, model, units.config)
    units.open_root(model.counts.outside_blocks + added, model.counts.largest_block)


def count_added_to_root(
    ctx: Recording, model: Architecture, gathering: FsdpConfig
) -> tuple[int, int]:
    """Return what adapting a model adds to its root unit.

    They are elements to gather, and gradients in elements of adapters. FSDP2's unit has the copies
    of a head that PEFT trains beside the frozen originals.
    """
    if ctx.settings.lora is None:
        return 0, 0
    adapters = _count_root_adapters(ctx, model, gathering)
    is_by_tensor = not (gathering.fetches_modules or gathering.flat_parameters)
    copied = [weight for weight, _ in model.weights() if weight.name in ctx.settings.saved]
    copies = count_padded_elements(copied, gathering.uneven_ranks) if is_by_tensor else 0
    return (
        copies + gathering.to_gathered_elements(adapters),
        adapters + gathering.to_adapter_elements(copies),
    )


def _count_root_adapters(ctx: Recording, model: Architecture, gathering: FsdpConfig) -> int:
    """Return the elements of adapters on linear layers of the root unit.

    Such are projections next to an embedding, and a head's own layers; layers of a tower are units.
    """
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
