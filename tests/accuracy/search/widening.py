"""Options beyond those that probes run: heads, images, adapters' kin, frozen modules, packing."""

from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import Any

from service.estimator.model.heads.config import list_heads
from service.estimator.values.batches import SequencePacking
from service.estimator.values.heads import LANGUAGE_MODELS, Head
from service.estimator.values.workload import Attention, Checkpointing, Lora, Method
from tests.accuracy.search.questions import Question
from tests.tiny_models import TINY

Options = dict[str, Any]

_FIXED_IMAGES: Mapping[str, int] = {"llava": 16, "gemma3": 4}
"""Tokens of an image of small configs whose size does not decide."""
_SIZED_IMAGES = ("qwen2_vl", "qwen2_5_vl")
IMAGE_MODELS = (*_FIXED_IMAGES, *_SIZED_IMAGES)
_VARIANTS = ("dora", "dora", "rslora")
_FROZEN = (
    *(("embedding",), ("embedding", "norm"), ("lm_head",), ("mlp",), ("attention",), ("norm",)),
    *(("embedding", "attention", "norm"), ("vision",), ("mlp_experts",), ("router",)),
)


def widen(random: Random, question: Question) -> Question:
    """Return the question with some of these options, where it has a place for them."""
    if "prompt_tokens" in question.options:
        return question
    question = _draw_head(random, question)
    options = dict(question.options)
    if question.model in IMAGE_MODELS and random.random() < 0.8:
        options |= _draw_images(random, question.model)
    for change in random.sample((_draw_adapters, _draw_checkpoints, _draw_frozen, _draw_rows), 2):
        options |= change(random, options)
    return replace(question, options=options)


def _draw_head(random: Random, question: Question) -> Question:
    model_type = (
        question.model if question.model in TINY else str(question.read_config()["model_type"])
    )
    heads = [head for head in list_heads(model_type) if head not in LANGUAGE_MODELS]
    if random.random() < 0.5 or model_type in IMAGE_MODELS or len(heads) < 2:
        return question
    # Classifiers read rows of many lengths, which a tokenizer pads.
    padded = {"padding_mask": True} if random.random() < 0.5 else {}
    options = {**question.options, **padded}
    return replace(question, head=Head(random.choice(heads)), options=options)


def _draw_images(random: Random, model: str) -> Options:
    tokens = _FIXED_IMAGES.get(model) or random.choice((4, 6, 16, 36, 64))
    count = random.choice((1, 1, 2, 3))
    return {
        "num_images": count,
        "image_tokens": tokens,
        "sequence_length": count * tokens + random.choice((10, 64, 200)),
    }


def _draw_adapters(random: Random, options: Options) -> Options:
    if random.random() < 0.3:
        return {"method": Method.PEFT, "peft": random.choice(("ia3", "miss")), "lora": None}
    lora = options.get("lora") or Lora(rank=random.choice((4, 16)))
    return {"method": Method.LORA, "lora": replace(lora, variant=random.choice(_VARIANTS))}


def _draw_checkpoints(random: Random, options: Options) -> Options:
    if random.random() < 0.4:
        return {
            "activation_checkpointing": Checkpointing.FULL,
            "reentrant_checkpointing": True,
        }
    if options.get("lora") or options.get("peft"):
        return {"activation_checkpointing": Checkpointing.FULL}
    return {
        "activation_checkpointing": Checkpointing.SELECTIVE,
        "selective_every": random.choice((1, 2, 2, 3, 4)),
    }


def _draw_frozen(random: Random, options: Options) -> Options:
    return {} if options.get("lora") or options.get("peft") else {"frozen": random.choice(_FROZEN)}


def _draw_rows(random: Random, options: Options) -> Options:
    if options.get("padding_mask") or options.get("num_images"):
        return {}
    is_alone = options.get("micro_batch_size", 2) == 1  # a full row has several sequences
    kinds = (SequencePacking.PACKED, SequencePacking.PADDING_FREE)
    packing = random.choice(kinds[is_alone:])
    is_flash = options.get("attention") is Attention.FLASH
    return {"packing": packing} | ({"attention": Attention.SDPA} if is_flash else {})
