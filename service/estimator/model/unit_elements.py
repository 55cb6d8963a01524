"""Elements of a sharded unit, adapters included."""

from collections.abc import Iterable, Iterator

from service.estimator.model.adapters.parameters import iter_linear_factors
from service.estimator.model.adapters.stacks import iter_stack_factors
from service.estimator.model.recording import Recording
from service.estimator.model.weights.quantized_layers import count_saved_elements
from service.estimator.model.weights.tensors import Linear, Weight, count_padded_elements
from service.estimator.tape.units import FsdpConfig


def count_unit_elements(
    ctx: Recording, weights: Iterable[Weight], linears: Iterable[Linear], gathering: FsdpConfig
) -> tuple[int, int]:
    """Return the elements of a block, and those that are trained.

    Its adapters are included, each in the room that it takes.
    """
    ranks, weights = gathering.uneven_ranks, tuple(weights)
    base = count_padded_elements(weights, ranks)
    linears = tuple(linears)
    if ctx.settings.scheme is not None:
        base -= sum(
            count_saved_elements(layer, ctx.settings.scheme, ctx.settings.compute_dtype)
            for layer in linears
        )
    adapters = count_padded_elements(list_adapter_factors(ctx, weights, linears), ranks)
    trained = (
        count_padded_elements([weight for weight in weights if ctx.is_trained(weight)], ranks)
        if ctx.settings.frozen
        else base
    )
    return base + gathering.to_gathered_elements(
        adapters
    ), trained if ctx.settings.trains_all else adapters


def iter_unit_tensors(
    ctx: Recording, weights: Iterable[Weight], linears: Iterable[Linear]
) -> Iterator[Weight]:
    """Yield a block's tensors, an adapter's after its layer's."""
    layers = {list(layer.weights())[-1]: layer for layer in linears}
    for weight in weights:
        yield weight
        yield from list_adapter_factors(ctx, [weight], [layers[weight]] if weight in layers else [])


def list_adapter_factors(
    ctx: Recording, weights: Iterable[Weight], linears: Iterable[Linear]
) -> list[Weight]:
    """Return the tensors of the adapters on a block."""
    factors = [*iter_stack_factors(ctx.settings.stacks, weights)]
    if ctx.settings.lora is not None:
        factors += [
            factor
            for layer in linears
            if ctx.settings.has_adapter(layer)
            for factor in iter_linear_factors(layer, ctx.settings.lora)
        ]
    return factors
