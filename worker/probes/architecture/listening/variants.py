"""Variants of passes that a recording has."""

from collections.abc import Mapping

import torch

from worker.probes.architecture.listening.listen import Phase, Variant

VARIANTS = {
    "fp32": Variant(dtype=torch.float32),
    "half": Variant(dtype=torch.bfloat16),
    "autocast": Variant(dtype=torch.float32, autocast=torch.bfloat16),
    "half_autocast": Variant(dtype=torch.bfloat16, autocast=torch.bfloat16),
    "gathered": Variant(dtype=torch.bfloat16, cast=True),
    "fp32/frozen": Variant(dtype=torch.float32, frozen=True),
    "half/frozen": Variant(dtype=torch.bfloat16, frozen=True),
    "autocast/frozen": Variant(dtype=torch.float32, autocast=torch.bfloat16, frozen=True),
    "half_autocast/frozen": Variant(dtype=torch.bfloat16, autocast=torch.bfloat16, frozen=True),
    "gathered/frozen": Variant(dtype=torch.bfloat16, cast=True, frozen=True),
    "fp32/prefill": Variant(dtype=torch.float32, phase=Phase.PREFILL),
    "fp32/decode": Variant(dtype=torch.float32, phase=Phase.DECODE),
    "half/prefill": Variant(dtype=torch.bfloat16, phase=Phase.PREFILL),
    "half/decode": Variant(dtype=torch.bfloat16, phase=Phase.DECODE),
    "fp32/generate/prefill": Variant(dtype=torch.float32, phase=Phase.GENERATED_PREFILL),
    "fp32/generate/decode": Variant(dtype=torch.float32, phase=Phase.GENERATED_DECODE),
    "half/generate/prefill": Variant(dtype=torch.bfloat16, phase=Phase.GENERATED_PREFILL),
    "half/generate/decode": Variant(dtype=torch.bfloat16, phase=Phase.GENERATED_DECODE),
    "fp32/forward": Variant(dtype=torch.float32, phase=Phase.FORWARD),
    "half/forward": Variant(dtype=torch.bfloat16, phase=Phase.FORWARD),
}
_GENERATING = frozenset({Phase.GENERATED_PREFILL, Phase.GENERATED_DECODE})


def list_steps(variants: Mapping[str, Variant], *, embeds: bool, casts: bool) -> list[str]:
    """Return the names of training passes.

    Frozen ones begin at what embeds tokens or patches; a model without it has none. One without
    buffers in the weights' format ``casts`` none, and has no passes beside buffers of another.
    """
    return [
        name
        for name, variant in variants.items()
        if variant.phase is Phase.STEP
        and (embeds or not variant.frozen)
        and (casts or not variant.cast)
    ]


def list_served(variants: Mapping[str, Variant], *, once: bool, generates: bool) -> list[str]:
    """Return the names of a model's passes that serve.

    One that is served at ``once`` has one pass, others those with a cache.
    """
    return [
        name
        for name, variant in variants.items()
        if variant.phase is not Phase.STEP
        and (variant.phase is Phase.FORWARD) is once
        and (generates or variant.phase not in _GENERATING)
    ]
