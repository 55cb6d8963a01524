"""PEFT methods beside low-rank adapters, with PEFT 0.21's defaults.

The defaults are rank, and targets by family. Each method is a variant of an adapter on linear
layers; what PEFT leaves to the user (which layers of a family that it does not know, how many
virtual tokens) has no word in a request, and is refused.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from service.estimator.model.architecture import Architecture
from service.estimator.values.errors import InvalidInputError, NotModelledError
from service.estimator.values.workload import Framework, Lora, Method, TrainWorkload

_ATTENTION = ("q_proj", "v_proj")
_FUSED = ("query_key_value",)
_LOW_RANK: Mapping[str, tuple[str, ...]] = MappingProxyType(
    dict.fromkeys(
        (
            "llama",
            "mistral",
            "mixtral",
            "qwen2",
            "qwen3",
            "gemma",
            "gemma2",
            "gemma3_text",
            "opt",
            "gptj",
        ),
        _ATTENTION,
    )
    | dict.fromkeys(("gpt_neox", "bloom", "falcon"), _FUSED)
    | {"phi": (*_ATTENTION, "fc1", "fc2")},
)
"""``TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING``, which most methods copy."""
_VECTORS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    dict.fromkeys(("llama", "mistral"), ("k_proj", "v_proj", "down_proj"))
    | dict.fromkeys(
        ("gemma", "gemma2", "gemma3_text", "qwen2", "qwen3"), (*_ATTENTION, "down_proj")
    )
    | dict.fromkeys(("gpt_neox", "falcon", "bloom"), (*_FUSED, "dense_4h_to_h"))
    | {
        "opt": ("q_proj", "k_proj", "fc2"),
        "phi": (*_ATTENTION, "fc2"),
        "gptj": (*_ATTENTION, "fc_out"),
    },
)
"""``TRANSFORMERS_MODELS_TO_IA3_TARGET_MODULES_MAPPING``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeftMethod:
    """Default rank of a method, and default targets by ``model_type``."""

    rank: int
    targets: Mapping[str, tuple[str, ...]]


MODELLED: Mapping[str, PeftMethod] = MappingProxyType(
    {
        "lora": PeftMethod(rank=8, targets=_LOW_RANK),
        "dora": PeftMethod(rank=8, targets=_LOW_RANK),
        "ia3": PeftMethod(rank=1, targets=_VECTORS),
        "miss": PeftMethod(rank=64, targets=_LOW_RANK),
    },
)


def resolve_peft_method(model: Architecture, workload: TrainWorkload) -> TrainWorkload:
    """Return a workload of method ``peft`` in terms of its adapters.

    Any other workload is returned as it is, and LitGPT's, whose scripts have methods of their own.
    """
    if workload.peft is None or workload.framework is Framework.LITGPT:
        return workload
    method = MODELLED.get(workload.peft.lower())
    if method is None:
        raise NotModelledError(
            f"PEFT's {workload.peft!r}", field="workload.peft.type", modelled=tuple(MODELLED)
        )
    targets = method.targets.get(model.family)
    if targets is None:
        message = (
            f"PEFT has no default target_modules for {model.family}; those it has: "
            f"{', '.join(sorted(method.targets))}"
        )
        raise InvalidInputError(message, field="workload.peft.type")
    if model.quantization is not None:
        feature = f"PEFT's {workload.peft!r} on quantised weights"
        raise NotModelledError(feature, field="workload.peft.type", modelled=["lora"])
    lora = Lora(rank=method.rank, targets=targets, variant=workload.peft.lower())
    return replace(workload, method=Method.LORA, lora=lora, peft=None)
