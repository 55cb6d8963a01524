"""Tensors of an adapter on a linear layer."""

from collections.abc import Collection, Iterator

from service.estimator.model.weights.tensors import Linear, Weight
from service.estimator.values.workload import Lora

KIND = "adapter"
ADAPTER_PARTS = ("lora_A", "lora_B", "lora_magnitude_vector", "ia3_l", "miss_block")
"""Names of an adapter's tensors, of whatever variant."""
_SCALED_INPUT = frozenset({"down_proj", "dense_4h_to_h", "fc2", "fc_out"})
"""Layers whose input IA3 scales (PEFT's
``TRANSFORMERS_MODELS_TO_IA3_FEEDFORWARD_MODULES_MAPPING``).
"""


def is_adapted(layer: Linear, lora: Lora, merged: Collection[str] = ()) -> bool:
    """Return whether targets name a layer, or the end of its path.

    A target with a dot is the end of a path (PEFT 0.21 ``tuners/tuners_utils.py``,
    ``check_target_module_exists``). Names of ``merged`` parameters are of no layer.
    """
    if layer.target in merged:
        return False
    targets, path = lora.targets, f".{layer.name}"
    return targets is None or any(path.endswith(f".{target}") for target in targets)


def iter_linear_factors(layer: Linear, lora: Lora) -> Iterator[Weight]:
    """Yield an adapter's tensors.

    A is rank x in, B is out x rank (arXiv:2106.09685); DoRA has a magnitude per output.
    """
    if lora.variant == "ia3":
        yield Weight(
            f"{layer.name}.ia3_l",
            KIND,
            (layer.in_features if has_scaled_input(layer) else layer.out_features,),
        )
        return
    if lora.variant == "miss":
        yield Weight(f"{layer.name}.miss_block", KIND, (lora.rank, layer.out_features))
        return
    yield Weight(f"{layer.name}.lora_A", KIND, (lora.rank, layer.in_features))
    yield Weight(f"{layer.name}.lora_B", KIND, (layer.out_features, lora.rank))
    if lora.variant == "dora":
        yield Weight(f"{layer.name}.lora_magnitude_vector", KIND, (layer.out_features,))


def has_scaled_input(layer: Linear) -> bool:
    """Return whether IA3 scales a layer's input, not its output.

    So it does with the last layer of a feed-forward.
    """
    return layer.target in _SCALED_INPUT
