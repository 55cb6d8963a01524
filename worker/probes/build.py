"""A real Hugging Face model with random weights, made from a config.json and cut to its first layers."""

from collections.abc import Iterable, Mapping, Sequence

import torch
from peft import LoraConfig, get_peft_model
from torch import nn
from torch._subclasses.fake_tensor import is_fake
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel, initialization

from service.estimator.dtypes import DType
from service.estimator.workload import Lora
from service.jobs.contract import FailureKind
from worker.probes.refusal import Refusal

TORCH_DTYPES = {DType.FP32: torch.float32, DType.BF16: torch.bfloat16, DType.FP16: torch.float16}

_DEPTH_FIELDS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
_PER_LAYER_FIELDS = ("layer_types", "mlp_layer_types", "no_rope_layers")
_PATTERN_ELEMENTS = 2**20
_INITIAL_STD = 0.02


def build_model(
    config: Mapping[str, object], *, layers: Sequence[int], dtype: DType, attention: str, device: str = "cpu"
) -> PreTrainedModel:
    """Return the model on ``device`` in training mode; ``attention`` is transformers' word: ``eager`` or ``sdpa``."""
    cut = cut_config(config, layers)
    hf_config = AutoConfig.for_model(str(cut.pop("model_type")), **cut)
    hf_config.use_cache = False
    # Made where it is to be: through the host's memory a large model would take minutes.
    with initialization.no_init_weights(), torch.device(device):
        model: PreTrainedModel = AutoModelForCausalLM.from_config(  # type: ignore[no-untyped-call]  # transformers' factories are untyped
            hf_config,
            dtype=_torch_dtype(dtype),
            attn_implementation=attention,
        )
    model.tie_weights()
    fill(model.parameters())
    model.train()
    return model


def cut_config(config: Mapping[str, object], layers: Sequence[int]) -> dict[str, object]:
    """Return the config of the same model with only these ``layers``, by their places in the whole."""
    if "quantization_config" in config:
        message = "the config names quantised weights; a cpu probe runs 16 and 32 bit weights only: drop quantization_config"
        raise Refusal(FailureKind.UNSUPPORTED, message)
    cut = {name: value for name, value in config.items() if name not in {"architectures", "torch_dtype", "dtype", "auto_map"}}
    depth = next((name for name in _DEPTH_FIELDS if name in cut), None)
    if depth is None:
        message = f"the config has none of {', '.join(_DEPTH_FIELDS)}; a probe must know how deep the model is"
        raise Refusal(FailureKind.INVALID_REQUEST, message)
    cut[depth] = len(layers)
    for name in _PER_LAYER_FIELDS:
        if isinstance(listed := cut.get(name), list):
            cut[name] = [listed[layer] for layer in layers]
    return cut


def add_adapters(model: PreTrainedModel, lora: Lora) -> nn.Module:
    """Return the model frozen, with LoRA adapters as PEFT makes them: fp32, on every linear layer but the head by default."""
    if lora.variant != "lora" or lora.dtype is not DType.FP32:
        message = f"a cpu probe makes plain fp32 LoRA adapters, not variant {lora.variant!r} in {lora.dtype.value}"
        raise Refusal(FailureKind.UNSUPPORTED, message)
    targets = "all-linear" if lora.targets is None else list(lora.targets)
    # PEFT asks for the flag where a layer stores its weight transposed, as GPT-2 does, and warns when it must flip it.
    transposed = any(type(module).__name__ == "Conv1D" for module in model.modules())
    config = LoraConfig(r=lora.rank, target_modules=targets, task_type="CAUSAL_LM", fan_in_fan_out=transposed)
    return get_peft_model(model, config).train()


def _torch_dtype(dtype: DType) -> torch.dtype:
    try:
        return TORCH_DTYPES[dtype]
    except KeyError:
        message = f"a cpu probe has no {dtype.value} weights; it runs {', '.join(TORCH_DTYPES)}"
        raise Refusal(FailureKind.UNSUPPORTED, message) from None


@torch.no_grad()
def fill(weights: Iterable[torch.Tensor]) -> None:
    """Fill the weights from one random pattern: drawing a billion numbers would take longer than the probe.

    Fake weights, and those on meta, have no values.
    """
    real = [weight for weight in weights if not is_fake(weight) and not weight.is_meta]
    if not real:
        return
    generator = torch.Generator().manual_seed(0)
    drawn = torch.empty(_PATTERN_ELEMENTS).normal_(std=_INITIAL_STD, generator=generator)
    pattern = drawn.to(real[0].device)
    for weight in real:
        flat = weight.data.view(-1)
        for start in range(0, flat.numel(), _PATTERN_ELEMENTS):
            piece = flat[start : start + _PATTERN_ELEMENTS]
            piece.copy_(pattern[: piece.numel()])
    # A norm's gain is drawn around 0 like everything else; around 1 it would only change values, never bytes.
