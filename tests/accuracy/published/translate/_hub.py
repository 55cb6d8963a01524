"""Configs of models that published runs name, as their repositories publish them, for those that
the catalogue lacks.

Sizes are those of the sources' own tables; fields that the sources leave out are those of each
``config.json``.
"""

from collections.abc import Mapping
from typing import Any

from tests.accuracy.published.rows import Untranslatable

Config = Mapping[str, Any]


def _decoder(kind: str, sizes: str, **fields: Any) -> Config:  # noqa: ANN401 - fields of a config.json have any type
    """Return a config from ``vocabulary hidden layers heads kv_heads inner positions``."""
    names = (
        "vocab_size",
        "hidden_size",
        "num_hidden_layers",
        "num_attention_heads",
        "num_key_value_heads",
        "intermediate_size",
        "max_position_embeddings",
    )
    numbers = dict(zip(names, (int(size) for size in sizes.split()), strict=True))
    return {"model_type": kind, **numbers, "tie_word_embeddings": False, **fields}


_GEMMA2 = {
    "tie_word_embeddings": True,
    "sliding_window": 4096,
    "final_logit_softcapping": 30.0,
    "attn_logit_softcapping": 50.0,
}

CONFIGS: Mapping[str, Config] = {
    # Table 4 of arXiv:2408.13359; steady bytes of training say that its tables are tied.
    "ibm/PowerLM-3b": _decoder(
        "granite", "49152 2304 40 36 36 9216 4096", tie_word_embeddings=True
    ),
    "codellama/CodeLlama-7b-hf": _decoder("llama", "32016 4096 32 32 32 11008 16384"),
    "meta-llama/Llama-3.1-8B-Instruct": _decoder("llama", "128256 4096 32 32 8 14336 131072"),
    "meta-llama/Meta-Llama-3-8B": _decoder("llama", "128256 4096 32 32 8 14336 8192"),
    "meta-llama/Llama-3.2-3B-Instruct": _decoder(
        "llama", "128256 3072 28 24 8 8192 131072", tie_word_embeddings=True
    ),
    "Qwen/Qwen2.5-7B-Instruct": _decoder("qwen2", "152064 3584 28 28 4 18944 32768"),
    "Qwen/Qwen2.5-Math-1.5B": _decoder(
        "qwen2", "151936 1536 28 12 2 8960 4096", tie_word_embeddings=True
    ),
    "Qwen/Qwen2.5-1.5B-Instruct": _decoder(
        "qwen2", "151936 1536 28 12 2 8960 32768", tie_word_embeddings=True
    ),
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-7B": _decoder(
        "qwen2", "152064 3584 28 28 4 18944 131072"
    ),
    "Qwen/Qwen3-4B": _decoder(
        "qwen3", "151936 2560 36 32 8 9728 40960", head_dim=128, tie_word_embeddings=True
    ),
    "Qwen/Qwen3-8B": _decoder("qwen3", "151936 4096 36 32 8 12288 40960", head_dim=128),
    "Qwen/Qwen3-14B": _decoder("qwen3", "151936 5120 40 40 8 17408 40960", head_dim=128),
    "Qwen/Qwen3-0.6B": _decoder(
        "qwen3", "151936 1024 28 16 8 3072 40960", head_dim=128, tie_word_embeddings=True
    ),
    "Qwen/Qwen2.5-0.5B-Instruct": _decoder(
        "qwen2", "151936 896 24 14 2 4864 32768", tie_word_embeddings=True
    ),
    "Qwen/Qwen2.5-3B-Instruct": _decoder(
        "qwen2", "151936 2048 36 16 2 11008 32768", tie_word_embeddings=True
    ),
    "Qwen/Qwen2.5-32B-Instruct": _decoder("qwen2", "152064 5120 64 40 8 27648 32768"),
    "Qwen/Qwen2-0.5B-Instruct": _decoder(
        "qwen2", "151936 896 24 14 2 4864 32768", tie_word_embeddings=True
    ),
    "Qwen/Qwen2-1.5B-Instruct": _decoder(
        "qwen2", "151936 1536 28 12 2 8960 32768", tie_word_embeddings=True
    ),
    "Qwen/Qwen2-7B-Instruct": _decoder("qwen2", "152064 3584 28 28 4 18944 32768"),
    "Qwen/Qwen2-72B-Instruct": _decoder("qwen2", "152064 8192 80 64 8 29568 32768"),
    "Qwen/Qwen1.5-0.5B-Chat": _decoder(
        "qwen2", "151936 1024 24 16 16 2816 32768", tie_word_embeddings=True
    ),
    "Qwen/Qwen1.5-1.8B-Chat": _decoder("qwen2", "151936 2048 24 16 16 5504 32768"),
    "meta-llama/Llama-2-7b-hf": _decoder("llama", "32000 4096 32 32 32 11008 4096"),
    "meta-llama/Llama-2-13b-hf": _decoder("llama", "32000 5120 40 40 40 13824 4096"),
    "meta-llama/Llama-2-13b-chat-hf": _decoder("llama", "32000 5120 40 40 40 13824 4096"),
    "meta-llama/Llama-2-7b-chat-hf": _decoder("llama", "32000 4096 32 32 32 11008 4096"),
    "deepseek-ai/deepseek-llm-7b-base": _decoder("llama", "102400 4096 30 32 32 11008 4096"),
    "microsoft/phi-1_5": _decoder(
        "phi", "51200 2048 24 32 32 8192 2048", partial_rotary_factor=0.5
    ),
    "Vicuna 7B": _decoder("llama", "32000 4096 32 32 32 11008 4096"),
    "Mistral 7B": _decoder("mistral", "32000 4096 32 32 8 14336 32768", sliding_window=4096),
    "MPT 7B": {
        "model_type": "mpt",
        "vocab_size": 50432,
        "d_model": 4096,
        "n_layers": 32,
        "n_heads": 32,
        "expansion_ratio": 4,
        "max_seq_len": 2048,
        "no_bias": True,
    },
    "stabilityai/stablelm-base-alpha-3b": _decoder(
        "gpt_neox", "50688 4096 16 32 32 16384 4096", rotary_pct=0.25
    ),
    "TinyLlama 1B": _decoder("llama", "32000 2048 22 32 4 5632 2048"),
    "Llama 2 13B": _decoder("llama", "32000 5120 40 40 40 13824 4096"),
    "CodeLlama 34B": _decoder("llama", "32000 8192 48 64 8 22016 16384"),
    "DeepSeek 33B": _decoder("llama", "32256 7168 62 56 8 19200 16384"),
    "LLaMA 7B": _decoder("llama", "32000 4096 32 32 32 11008 2048"),
    "LLaMA 13B": _decoder("llama", "32000 5120 40 40 40 13824 2048"),
    "LLaMA 30B": _decoder("llama", "32000 6656 60 52 52 17920 2048"),
    "bigcode/octocoder": {
        "model_type": "gpt_bigcode",
        "vocab_size": 49152,
        "n_embd": 6144,
        "n_layer": 40,
        "n_head": 48,
        "n_inner": 24576,
        "n_positions": 8192,
        "multi_query": True,
        "tie_word_embeddings": True,
    },
    "google/gemma-7b": _decoder(
        "gemma", "256000 3072 28 16 16 24576 8192", head_dim=256, tie_word_embeddings=True
    ),
    "google/gemma-2-2b-it": _decoder(
        "gemma2", "256000 2304 26 8 4 9216 8192", head_dim=256, **_GEMMA2
    ),
    "google/gemma-2-9b-it": _decoder(
        "gemma2", "256000 3584 42 16 8 14336 8192", head_dim=256, **_GEMMA2
    ),
    "google/gemma-2-27b-it": _decoder(
        "gemma2", "256000 4608 46 32 16 36864 8192", head_dim=128, **_GEMMA2
    ),
    "ibm-granite/granite-3.1-2b-instruct": _decoder(
        "granite", "49155 2048 40 32 8 8192 131072", tie_word_embeddings=True
    ),
    "ibm-granite/granite-3.1-8b-instruct": _decoder(
        "granite", "49155 4096 40 32 8 12800 131072", tie_word_embeddings=True
    ),
    "ibm-granite/granite-3.3-8b-instruct": _decoder(
        "granite", "49159 4096 40 32 8 12800 131072", tie_word_embeddings=True
    ),
    "microsoft/phi-2": _decoder("phi", "51200 2560 32 32 32 10240 2048", partial_rotary_factor=0.4),
    "microsoft/phi-4": _decoder(
        "phi3", "100352 5120 40 40 10 17920 16384", sliding_window=None, pad_token_id=100349
    ),
}

_INT8 = {"num_bits": 8, "type": "int", "strategy": "channel", "symmetric": True, "dynamic": False}
_FP8 = _INT8 | {"type": "float"}
QUANTISED: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "RedHatAI/Qwen2.5-7B-Instruct-fp8-dynamic": (
        "Qwen/Qwen2.5-7B-Instruct",
        {
            "format": "float-quantized",
            "config_groups": {"group_0": {"targets": ["Linear"], "weights": _FP8}},
        },
    ),
    "RedHatAI/Qwen2.5-7B-Instruct-quantized.w8a8": (
        "Qwen/Qwen2.5-7B-Instruct",
        {
            "format": "int-quantized",
            "config_groups": {"group_0": {"targets": ["Linear"], "weights": _INT8}},
        },
    ),
    "RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w8a8": (
        "meta-llama/Llama-3.1-8B-Instruct",
        {
            "format": "int-quantized",
            "config_groups": {"group_0": {"targets": ["Linear"], "weights": _INT8}},
        },
    ),
}
"""Checkpoints with compressed-tensors weights: the model, and what their ``quantization_config``
says of it.
"""
GPTQ: Mapping[str, str] = {
    "RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w4a16": "meta-llama/Llama-3.1-8B-Instruct"
}
"""Checkpoints with GPTQ weights: 4 bits, groups of 128, symmetric."""


def quantised(name: str, described: Mapping[str, Any]) -> Any:  # noqa: ANN401 - an inline model
    """Return a model with a ``quantization_config``; raise Untranslatable for one whose config is
    not known here.
    """
    if name not in CONFIGS:
        message = "the model's config is not known"
        raise Untranslatable(message)
    return {"hf_config": {**CONFIGS[name], "quantization_config": dict(described)}}


def model_named(name: str) -> Any:  # noqa: ANN401 - a catalogue name or an inline model
    """Return what a request says for a model; raise Untranslatable for one whose config is not
    known here.
    """
    if name in QUANTISED:
        base, says = QUANTISED[name]
        described = {"quant_method": "compressed-tensors", "ignore": ["lm_head"], **says}
        return {"hf_config": {**CONFIGS[base], "quantization_config": described}}
    if name in GPTQ:
        described = {
            "quant_method": "gptq",
            "bits": 4,
            "group_size": 128,
            "sym": True,
            "desc_act": True,
        }
        return {"hf_config": {**CONFIGS[GPTQ[name]], "quantization_config": described}}
    if name not in CONFIGS:
        message = "the model's config is not known"
        raise Untranslatable(message)
    return {"hf_config": dict(CONFIGS[name])}
