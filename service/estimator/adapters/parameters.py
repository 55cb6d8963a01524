"""The tensors of a low-rank adapter."""

from collections.abc import Iterator

from service.estimator.modules.weights import Linear, Weight
from service.estimator.workload import Lora

KIND = "adapter"


def factors_of(layer: Linear, lora: Lora) -> Iterator[Weight]:
    """Yield an adapter's tensors: A is rank x in, B is out x rank (arXiv:2106.09685); DoRA has a magnitude per output."""
    yield Weight(f"{layer.name}.lora_A", KIND, (lora.rank, layer.in_features))
    yield Weight(f"{layer.name}.lora_B", KIND, (layer.out_features, lora.rank))
    if lora.variant == "dora":
        yield Weight(f"{layer.name}.lora_magnitude_vector", KIND, (layer.out_features,))


def adapter_elements(layer: Linear, lora: Lora) -> int:
    """Return the elements of an adapter."""
    return sum(weight.numel for weight in factors_of(layer, lora))
