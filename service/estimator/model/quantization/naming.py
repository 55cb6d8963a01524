"""Module names in checkpoints, for lists of unquantised modules.

Models that read images have their language model under another name in each generation of
transformers: the list may be of either (``base_model_prefix`` and
``_checkpoint_conversion_mapping`` of ``models/llava/modeling_llava.py``).
"""

import re

from service.estimator.model.architecture import Architecture

_TOWER_PREFIXES = (
    (re.compile(r"vision\.(?=\d)"), "vision_tower.vision_model.encoder.layers."),
    (re.compile(r"visual\.(?=\d)"), "visual.blocks."),
)
"""CLIP's and SigLIP's layers, and Qwen2-VL's."""

_PREFIXES = {"nemotron_h": ("backbone",)}
"""What the layers of published checkpoints stand under, where transformers has another name."""


def get_outer_names(model: Architecture, name: str) -> tuple[str, ...]:
    """Return the names of a module that stands outside of the layers."""
    if not _is_nested(model):
        return (name,)
    for pattern, prefix in _TOWER_PREFIXES:
        name = pattern.sub(prefix, name, count=1)
    return (name, f"model.{name}")


def get_layer_names(model: Architecture, layer: int, name: str) -> tuple[str, ...]:
    """Return the names of a module of a layer."""
    tail = f"layers.{layer}.{name}"
    nested = (
        (f"language_model.model.{tail}", f"model.language_model.{tail}")
        if _is_nested(model)
        else ()
    )
    own = tuple(f"{prefix}.{tail}" for prefix in _PREFIXES.get(model.family, ()))
    return (f"model.{tail}", *own, *nested)


def get_head_names(model: Architecture) -> tuple[str, ...]:
    """Return the names of the output head."""
    name = model.head.name
    return (name, f"language_model.{name}") if _is_nested(model) else (name,)


def _is_nested(model: Architecture) -> bool:
    """Return whether a language model is a part of another.

    That is so beside a tower of images. A recording has the full name of its table of tokens, but
    of its layers the names within one.
    """
    has_tower = model.images is not None and not model.images.every_sequence
    return has_tower or ".language_model." in f".{model.embedding.name}"
