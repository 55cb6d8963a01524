"""Rules of how many images and videos a prompt may have."""

from service.estimator.rules.grammar.conditions import (
    all_of,
    is_absent,
    is_at_most,
    is_given,
    is_in,
)
from service.estimator.rules.grammar.fields import workload
from service.estimator.rules.grammar.rule import Rule, Topic, invalid
from service.estimator.values.workload import Engine

_SOURCE = "vLLM 0.33.0, vllm/config/multimodal.py, limit_per_prompt"
_LIMITS = (
    ("max_images_per_prompt", workload.max_images_per_prompt),
    ("max_videos_per_prompt", workload.max_videos_per_prompt),
)

ITEM_LIMITS = (
    *(
        Rule(
            when=is_given(field),
            require=is_in(workload.engine, Engine.VLLM),
            field=field.path,
            topic=Topic.IMAGES,
            refusal=invalid(
                f"{name} is a word of engine vllm, which profiles its vision tower with as many; "
                "{workload.engine} does not: leave it out"
            ),
            reason=f"{name} is a word of engine vllm",
            source=_SOURCE,
        )
        for name, field in _LIMITS
    ),
    Rule(
        when=all_of(is_given(workload.num_images), is_given(workload.max_images_per_prompt)),
        require=is_at_most(workload.num_images, workload.max_images_per_prompt),
        topic=Topic.IMAGES,
        refusal=invalid(
            "num_images is {workload.num_images}, and max_images_per_prompt lets a prompt have "
            "{workload.max_images_per_prompt}"
        ),
        source=_SOURCE,
    ),
)
"""What engines are asked about them."""

NO_ITEM_LIMITS = tuple(
    Rule(
        require=is_absent(field),
        topic=Topic.WORDS,
        refusal=invalid(
            f"{name} is a word of engine vllm, and engine is {{workload.engine}}: leave it out"
        ),
        reason=f"{name} is a word of engine vllm",
        source=_SOURCE,
    )
    for name, field in _LIMITS
)
"""What transformers is asked, which profiles nothing."""
