"""What checkpoints call a module, which is what a list of modules that stay unquantised goes by.

Models that read images have their language model under another name in each generation of transformers: the list may be of
either (``base_model_prefix`` and ``_checkpoint_conversion_mapping`` of ``models/llava/modeling_llava.py``).
"""

import re

from service.estimator.model.architecture import Architecture

_OF_TOWERS = (
    (re.compile(r"vision\.(?=\d)"), "vision_tower.vision_model.encoder.layers."),
    (re.compile(r"visual\.(?=\d)"), "visual.blocks."),
)
"""CLIP's and SigLIP's layers, and Qwen2-VL's."""


def outer_names(model: Architecture, name: str) -> tuple[str, ...]:
    """Return the names of a module that stands outside of the layers."""
    if not _reads_images(model):
        return (name,)
    for ours, theirs in _OF_TOWERS:
        name = ours.sub(theirs, name, count=1)
    return (name, f"model.{name}")


def layer_names(model: Architecture, layer: int, name: str) -> tuple[str, ...]:
    """Return the names of a module of a layer."""
    tail = f"layers.{layer}.{name}"
    more = (f"language_model.model.{tail}", f"model.language_model.{tail}") if _reads_images(model) else ()
    return (f"model.{tail}", *more)


def head_names(model: Architecture) -> tuple[str, ...]:
    """Return the names of the output head."""
    name = model.head.name
    return (name, f"language_model.{name}") if _reads_images(model) else (name,)


def _reads_images(model: Architecture) -> bool:
    """Tell whether a language model has a tower beside it."""
    return model.images is not None and not model.images.every_sequence
