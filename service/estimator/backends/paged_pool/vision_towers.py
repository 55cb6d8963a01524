"""One rank's shard of vision towers and projectors.

Engines split a tower's layers and its projector as they split the language model's. Read off vLLM
0.19.0 (``clip.py``, ``siglip.py``, ``pixtral.py``, ``qwen2_vl.py``, ``llava.py``, ``mistral3.py``
in ``model_executor/models``), whose classes SGLang has as well. Patches, norms and the merger of
Mistral 3 are replicated.
"""

from dataclasses import replace

from service.estimator.model.architecture import Architecture
from service.estimator.model.recorded.narrowing import is_recorded
from service.estimator.model.weights.tensors import Weight

_COLUMNS = frozenset(
    {"q_proj", "k_proj", "v_proj", "qkv", "gate_proj", "up_proj", "fc1", "linear_1", "mlp.0"}
)
_ROWS = frozenset({"out_proj", "o_proj", "proj", "down_proj", "fc2", "linear_2", "mlp.2"})


def split_tower(model: Architecture, ranks: int) -> Architecture:
    """Return the model with one rank's shard of its vision layers."""
    if not (model.images or is_recorded(model)) or ranks == 1:
        return model
    split = {layer.name for layer in model.outer_linears}
    return replace(
        model,
        stem=tuple(
            _shard_weight(weight, ranks) if _get_layer_name(weight) in split else weight
            for weight in model.stem
        ),
    )


def _get_layer_name(weight: Weight) -> str:
    return weight.name.rpartition(".")[0]


def _shard_weight(weight: Weight, ranks: int) -> Weight:
    """Return a shard of a weight's outputs or of its inputs.

    A bias of a layer that is split by inputs is replicated.
    """
    axis = _find_split_axis(weight)
    if axis is None or weight.shape[axis] % ranks:
        return weight
    shape = tuple(
        size // ranks if index == axis else size for index, size in enumerate(weight.shape)
    )
    return replace(weight, shape=shape)


def _find_split_axis(weight: Weight) -> int | None:
    """Return the axis that is split, None where nothing is."""
    parts = _get_layer_name(weight).split(".")
    names = {parts[-1], ".".join(parts[-2:])}
    if names & _COLUMNS:
        return 0
    return 1 if names & _ROWS and len(weight.shape) > 1 else None
