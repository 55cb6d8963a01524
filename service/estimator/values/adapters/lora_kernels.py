"""Axolotl's kernels for adapters: one function for several layers and their adapters."""

from enum import StrEnum


class LoraKernel(StrEnum):
    """Layers that one of axolotl's functions runs with their adapters."""

    QKV = "qkv"
    """query, key and value (``lora_qkv_kernel``)"""
    OUTPUT = "o"
    """attention's last layer (``lora_o_kernel``)"""
    MLP = "mlp"
    """a gated feed-forward layer (``lora_mlp_kernel``)"""


ATTENTION_KERNELS = frozenset({LoraKernel.QKV, LoraKernel.OUTPUT})
"""Those that are written into the code of a family's attention."""
PATCHED_FAMILIES = frozenset(
    {
        *("arcee", "bamba", "cohere2", "exaone4", "gemma", "gemma2", "gemma3", "gemma3_text"),
        *("glm", "glm4", "gpt_oss", "granite", "granitemoe", "granitemoehybrid", "jamba", "llama"),
        *("ministral", "mistral", "mistral3", "mixtral", "nemotron", "phimoe", "qwen2"),
        *("qwen2_moe", "qwen3", "qwen3_moe", "qwen3_next", "seed_oss", "smollm3", "starcoder2"),
    }
)
"""Families whose attention has the lines that axolotl 0.19 replaces
(``monkeypatch/lora_kernels.py``, ``QKV_PATCHES``); it stops at all others.
"""
KERNEL_ACTIVATIONS = ("silu", "gelu")
"""Beginnings of activations that its gated layer has a kernel for (``SUPPORTED_ACTIVATIONS``; every
name with gelu in it counts as gelu).
"""
