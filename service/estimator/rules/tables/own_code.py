"""Rules of a model's own code: kernels and images."""

from service.estimator.rules.grammar.conditions import (
    Field,
    all_of,
    is_absent,
    is_false,
    is_given,
    is_in,
    is_not_in,
    is_true,
    satisfies,
)
from service.estimator.rules.grammar.fields import model, workload
from service.estimator.rules.grammar.rule import Rule, Topic, invalid, unmodelled
from service.estimator.rules.predicates.images import (
    asks_for_images,
    explain_image_room,
    explain_text_alone,
    has_room_for_images,
    keeps_image_size,
    reads_images,
    reads_one_image,
    sees_one_kind,
    sizes_images,
)
from service.estimator.rules.predicates.items import (
    explain_items,
    explain_needed_length,
    get_length_path,
    has_needed_length,
    has_single_item,
)
from service.estimator.values.dtypes import DType
from service.estimator.values.workload import Attention

_ASKED = all_of(
    is_true(model.has_images),
    satisfies(asks_for_images, workload.num_images, workload.image_tokens, workload.inputs),
)
_OWN_MODULES = "the model's own modules"

IMAGES = (
    *(
        Rule(
            when=is_false(model.has_images),
            require=is_absent(field),
            topic=Topic.IMAGES,
            refusal=invalid(
                f"{name} is {{{field.path}}}, but {{model.family}} takes no images; leave it out"
            ),
            source=_OWN_MODULES,
        )
        for name, field in (
            ("num_images", workload.num_images),
            ("image_tokens", workload.image_tokens),
        )
    ),
    Rule(
        require=satisfies(has_needed_length, workload.inputs),
        topic=Topic.IMAGES,
        refusal=invalid(explain_needed_length, field=get_length_path),
        source=_OWN_MODULES,
    ),
    Rule(
        when=is_false(model.reads_text),
        require=satisfies(has_single_item, workload.inputs),
        topic=Topic.IMAGES,
        refusal=invalid(explain_items),
        reason=lambda case: f"{case.model.family} reads one item of its kind in each sequence",
        source=_OWN_MODULES,
    ),
    Rule(
        when=all_of(is_false(model.has_images), is_true(model.reads_text)),
        require=is_absent(workload.inputs),
        topic=Topic.IMAGES,
        refusal=invalid(explain_text_alone),
        source=_OWN_MODULES,
    ),
    Rule(
        when=is_given(workload.inputs),
        require=all_of(is_absent(workload.num_images), is_absent(workload.image_tokens)),
        field=workload.inputs.path,
        topic=Topic.IMAGES,
        refusal=invalid(
            "inputs has the images by their pixels; leave num_images and image_tokens out"
        ),
        source=_OWN_MODULES,
    ),
    Rule(
        when=all_of(is_true(model.has_images), is_given(workload.inputs)),
        require=satisfies(sees_one_kind, workload.inputs),
        topic=Topic.IMAGES,
        refusal=unmodelled(
            "images and videos in one sequence, two passes of the tower", "images", "videos"
        ),
    ),
    Rule(
        when=_ASKED,
        require=satisfies(reads_images),
        field=workload.num_images.path,
        topic=Topic.IMAGES,
        refusal=unmodelled(
            "images through this model's tower", "text alone, with the tower loaded and idle"
        ),
    ),
    Rule(
        when=_ASKED,
        require=satisfies(reads_one_image, workload.num_images, workload.inputs),
        topic=Topic.IMAGES,
        refusal=invalid(
            "num_images is not 1; this model reads one image per sequence: leave it out, or say 1"
        ),
        source=_OWN_MODULES,
    ),
    Rule(
        when=_ASKED,
        require=satisfies(sizes_images, workload.image_tokens, workload.inputs),
        topic=Topic.IMAGES,
        refusal=invalid(
            "num_images is given without image_tokens; an image of this model takes as many "
            "tokens as its size asks for: say inputs with its width and height"
        ),
        source=_OWN_MODULES,
    ),
    Rule(
        when=_ASKED,
        require=satisfies(keeps_image_size, workload.image_tokens),
        topic=Topic.IMAGES,
        refusal=invalid(
            "image_tokens is {workload.image_tokens}; an image of this model takes "
            "{model.tree.images.tokens}"
        ),
        source=_OWN_MODULES,
    ),
    Rule(
        when=_ASKED,
        require=satisfies(
            has_room_for_images,
            workload.num_images,
            workload.image_tokens,
            workload.inputs,
            workload.sequence_length,
            workload.prompt_tokens,
        ),
        topic=Topic.IMAGES,
        refusal=invalid(explain_image_room, field=get_length_path),
        source=_OWN_MODULES,
    ),
)
KERNELS = (
    Rule(
        when=is_true(model.caps_scores),
        require=is_in(workload.attention, Attention.EAGER, Attention.SDPA),
        topic=Topic.ATTENTION,
        refusal=unmodelled(
            "attention '{workload.attention}' of a model that caps its scores "
            "(attn_logit_softcapping)",
            *("eager", "sdpa, which falls back to eager"),
        ),
        reason="attention {workload.attention} cannot cap the scores of {model.family}",
        source="transformers 5.23, attn_logit_softcapping: SDPA falls back to eager",
    ),
    Rule(
        when=is_true(model.biases_scores),
        require=is_not_in(workload.attention, Attention.FLASH, Attention.MATH),
        topic=Topic.ATTENTION,
        refusal=unmodelled(
            "attention '{workload.attention}' of {model.family}, whose scores get a bias",
            *("eager", "sdpa", "efficient"),
        ),
        reason="attention {workload.attention} of {model.family}, whose scores get a bias",
        source="flash-attn takes no bias; no term for the math kernel's",
    ),
)
"""Kernels that attention with capped or biased scores can use."""


def make_flash_rule(dtype: Field[DType]) -> Rule:
    """Return the rule that flash attention reads 16 bits, of ``dtype``."""
    return Rule(
        when=all_of(is_true(model.attends), is_in(workload.attention, Attention.FLASH)),
        require=is_not_in(dtype, DType.FP32),
        field=workload.attention.path,
        topic=Topic.ATTENTION,
        refusal=invalid(
            "attention flash takes 16 bits, and queries are in fp32 here: say attention sdpa, "
            "which takes a kernel that there is, or compute in bf16"
        ),
        reason="flash attention takes no fp32",
        source="torch 2.13 aten/src/ATen/native/transformers/cuda/sdp_utils.cpp, "
        "check_tensor_dtype; flash-attn: only fp16 and bf16",
    )
