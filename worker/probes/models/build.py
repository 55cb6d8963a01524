"""Hugging Face models with random weights, truncated to some layers.

They are made from a config.json.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from torch import nn
from torch._subclasses.fake_tensor import is_fake
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForImageClassification,
    AutoModelForImageTextToText,
    AutoModelForMaskedLM,
    AutoModelForQuestionAnswering,
    AutoModelForSeq2SeqLM,
    AutoModelForSequenceClassification,
    AutoModelForSpeechSeq2Seq,
    AutoModelForTokenClassification,
    PreTrainedConfig,
    PreTrainedModel,
    initialization,
)

from service.estimator.model.config_reader import put_known_model_type
from service.estimator.model.families.registry import (
    architecture_from_config,
    list_model_types,
)
from service.estimator.model.saved_modules import select_saved_modules
from service.estimator.values.dtypes import DType
from service.estimator.values.heads import Head
from service.estimator.values.workload import Lora
from service.jobs.contract import FailureKind
from service.probing.refusal import Refusal
from service.probing.stack import get_layer_stack
from worker.probes.models.model_class import build_any_model, settle_config
from worker.probes.models.truncate_config import truncate_config

TORCH_DTYPES = {DType.FP32: torch.float32, DType.BF16: torch.bfloat16, DType.FP16: torch.float16}

_SEQ2SEQ, _MASKED, _IMAGES_AND_TEXT = (
    AutoModelForSeq2SeqLM,
    AutoModelForMaskedLM,
    AutoModelForImageTextToText,
)
_AUTO_CLASSES: Mapping[str, type] = {
    "bart": _SEQ2SEQ,
    "bert": _MASKED,
    "camembert": _MASKED,
    "clip": AutoModel,
    "distilbert": _MASKED,
    "electra": _MASKED,
    "gemma3": _IMAGES_AND_TEXT,
    "llava": _IMAGES_AND_TEXT,
    "mbart": _SEQ2SEQ,
    "mistral3": _IMAGES_AND_TEXT,
    "modernbert": _MASKED,
    "mt5": _SEQ2SEQ,
    "qwen2_5_vl": _IMAGES_AND_TEXT,
    "qwen2_vl": _IMAGES_AND_TEXT,
    "roberta": _MASKED,
    "t5": _SEQ2SEQ,
    "vit": AutoModelForImageClassification,
    "whisper": AutoModelForSpeechSeq2Seq,
    "xlm-roberta": _MASKED,
}
"""Auto class that makes a model with its head, by model_type; AutoModelForCausalLM by default."""
_TASK_CLASSES: Mapping[Head, type] = {
    Head.NONE: AutoModel,
    Head.SEQUENCE_CLASSIFICATION: AutoModelForSequenceClassification,
    Head.TOKEN_CLASSIFICATION: AutoModelForTokenClassification,
    Head.QUESTION_ANSWERING: AutoModelForQuestionAnswering,
}
"""Auto class that makes a model with another head, which its config names."""
_IGNORED_FIELDS = frozenset({"architectures", "torch_dtype", "dtype", "auto_map"})
_PATTERN_ELEMENTS = 2**20
_INITIAL_STD = 0.02


def build_model(
    config: Mapping[str, object],
    *,
    layers: Sequence[int],
    dtype: DType,
    attention: str,
    device: str = "cpu",
) -> PreTrainedModel:
    """Build the model on ``device`` in training mode.

    ``attention`` is transformers' attn_implementation: ``eager`` or ``sdpa``.
    """
    if is_recorded_type(config):
        return _build_recorded_type(config, dtype=dtype, attention=attention, device=device)
    hf_config = build_hf_config(config, layers)
    auto_class = get_auto_class(config)
    if not auto_class._model_mapping[type(hf_config)]._supports_sdpa:  # noqa: SLF001 - the factories' only table
        attention = "eager"
    # Made where it is to be: through the host's memory a large model would take minutes.
    with initialization.no_init_weights(), torch.device(device):
        model: PreTrainedModel = auto_class.from_config(
            hf_config, dtype=_get_torch_dtype(dtype), attn_implementation=attention
        )
    model.tie_weights()
    fill_weights(model.parameters())
    model.train()
    return model


def is_recorded_type(config: Mapping[str, object]) -> bool:
    """Return whether a config's type has no module here."""
    return str(put_known_model_type(config).get("model_type")) not in list_model_types()


def _build_recorded_type(
    config: Mapping[str, object], *, dtype: DType, attention: str, device: str
) -> PreTrainedModel:
    """Build the model whose passes are recorded, with all of its layers."""
    with torch.device(device):
        model = build_any_model(
            config, settle_config(config), dtype=_get_torch_dtype(dtype), attention=attention
        )
    fill_weights(model.parameters())
    return model


def get_auto_class(config: Mapping[str, object]) -> Any:  # noqa: ANN401 - the factories have no common type
    """Return the auto class for the head that a config names."""
    own_class = _AUTO_CLASSES.get(str(config["model_type"]), AutoModelForCausalLM)
    return _TASK_CLASSES.get(get_head(config), own_class)


def get_head(config: Mapping[str, object]) -> Head:
    """Return the head that a config names.

    It is the class's own where the type has no module here.
    """
    if is_recorded_type(config):
        return Head.DEFAULT
    return Head(architecture_from_config(config).spec.head)


def build_hf_config(config: Mapping[str, object], layers: Sequence[int]) -> PreTrainedConfig:
    """Build the config of the model with only these ``layers``.

    ``layers`` are positions in the full model.
    """
    if config.get("quantization_config") is not None:
        message = (
            "the config names quantised weights; a probe runs 16 and 32 bit weights only: drop "
            "quantization_config"
        )
        raise Refusal(FailureKind.UNSUPPORTED, message)
    fields = {
        name: value
        for name, value in put_known_model_type(config).items()
        if name not in _IGNORED_FIELDS
    }
    hf_config = AutoConfig.for_model(str(fields.pop("model_type")), **fields)
    truncate_config(hf_config, get_layer_stack(architecture_from_config(config)), layers)
    hf_config.use_cache = hf_config.get_text_config().use_cache = (
        False  # a model of images and text asks the inner one
    )
    if hf_config.is_encoder_decoder:
        _set_special_tokens(hf_config, "pad_token_id", "decoder_start_token_id")
    elif get_head(config) is not Head.DEFAULT:
        _set_special_tokens(hf_config.get_text_config(), "pad_token_id")
    return hf_config


def _set_special_tokens(hf_config: PreTrainedConfig, *names: str) -> None:
    """Set the tokens that decoders begin with and classifiers look for.

    Their values do not affect the bytes.
    """
    for name in names:
        if getattr(hf_config, name, None) is None:
            setattr(hf_config, name, 0)


def add_adapters(model: PreTrainedModel, lora: Lora, head: Head) -> nn.Module:
    """Freeze the model and add plain fp32 adapters as PEFT makes them.

    By default they are on every linear layer but the head, which is trained in full where it is
    that of another task than the family's own.
    """
    targets = "all-linear" if lora.targets is None else list(lora.targets)
    # PEFT asks for the flag where a layer stores its weight transposed, as GPT-2 does, and warns
    # when it must flip it.
    transposed = any(type(module).__name__ == "Conv1D" for module in model.modules())
    # No task_type: it says how prompts are generated from, which encoders and vision models have no
    # code for, and which modules are trained in full, but too late for all-linear to leave them.
    modules = (name for name, _ in model.named_modules())
    config = LoraConfig(
        r=lora.rank,
        target_modules=targets,
        fan_in_fan_out=transposed,
        lora_dropout=lora.dropout,
        modules_to_save=select_saved_modules(head, modules) or None,
    )
    return get_peft_model(model, config).train()


def _get_torch_dtype(dtype: DType) -> torch.dtype:
    try:
        return TORCH_DTYPES[dtype]
    except KeyError:
        message = f"a probe has no {dtype.value} weights; it runs {', '.join(TORCH_DTYPES)}"
        raise Refusal(FailureKind.UNSUPPORTED, message) from None


@torch.no_grad()
def fill_weights(weights: Iterable[torch.Tensor]) -> None:
    """Fill the weights from one random pattern.

    Drawing a billion numbers would take longer than the probe. Fake weights, and those on meta,
    have no values.
    """
    real = [weight for weight in weights if not is_fake(weight) and not weight.is_meta]
    if not real:
        return
    generator = torch.Generator().manual_seed(0)
    values = torch.empty(_PATTERN_ELEMENTS).normal_(std=_INITIAL_STD, generator=generator)
    pattern = values.to(real[0].device)
    for weight in real:
        flat = weight.data.view(-1)
        for start in range(0, flat.numel(), _PATTERN_ELEMENTS):
            piece = flat[start : start + _PATTERN_ELEMENTS]
            piece.copy_(pattern[: piece.numel()])
    # A norm's gain is drawn around 0 like everything else; around 1 it would only change values,
    # never bytes.
