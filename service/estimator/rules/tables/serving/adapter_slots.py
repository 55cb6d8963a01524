"""Rules of adapter slots that an engine allocates at its start."""

from service.estimator.rules.grammar.conditions import (
    is_absent,
    is_given,
    is_in,
)
from service.estimator.rules.grammar.fields import model, workload
from service.estimator.rules.grammar.rule import Rule, Topic, invalid, unmodelled
from service.estimator.values.workload import Engine

_SOURCE = "vLLM 0.33.0, vllm/config/lora.py"
_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""``MaxLoRARanks``."""
WITH_HEADS = ("exaone4", "granite", "llama", "nemotron", "phi3", "qwen3")
"""Families whose table and head have slots as well (``embedding_modules`` of their classes, or of
``LlamaForCausalLM``).
"""
WITH_TABLES = (*WITH_HEADS, "cohere", "cohere2")
"""Families whose table has slots."""
_LAYERS_ALONE = ("gemma", "gemma2", "gemma3_text", "glm4", "mistral", "opt", "qwen2")
_FAMILIES = tuple(sorted((*WITH_TABLES, *_LAYERS_ALONE)))

ADAPTER_SLOTS = (
    Rule(
        when=is_given(workload.max_loras),
        require=is_in(workload.engine, Engine.VLLM),
        field=workload.max_loras.path,
        topic=Topic.WEIGHTS,
        refusal=unmodelled("adapter slots of {workload.engine}", "engine vllm"),
        reason="adapter slots of {workload.engine}",
    ),
    Rule(
        when=is_given(workload.max_lora_rank),
        require=is_given(workload.max_loras),
        field=workload.max_lora_rank.path,
        topic=Topic.WEIGHTS,
        refusal=invalid(
            "max_lora_rank is of adapter slots, and there are none: say max_loras, or leave it out"
        ),
        reason="max_lora_rank is of adapter slots, and there are none",
        source=_SOURCE,
    ),
    Rule(
        when=is_given(workload.max_lora_rank),
        require=is_in(workload.max_lora_rank, *_RANKS),
        topic=Topic.WEIGHTS,
        refusal=invalid(
            "max_lora_rank is {workload.max_lora_rank}; vLLM has slots of rank "
            + ", ".join(map(str, _RANKS))
        ),
        reason="vLLM has no slots of rank {workload.max_lora_rank}",
        source=_SOURCE,
    ),
    Rule(
        when=is_given(workload.max_loras),
        require=is_in(model.family, *_FAMILIES),
        field=workload.max_loras.path,
        topic=Topic.WEIGHTS,
        refusal=unmodelled("adapter slots of {model.family}", *_FAMILIES),
        reason="adapter slots of {model.family}",
        source="vLLM 0.33.0, vllm/model_executor/models, SupportsLoRA",
    ),
)
"""What all engines are asked about adapter slots."""

NO_ADAPTER_SLOTS = tuple(
    Rule(
        require=is_absent(field),
        topic=Topic.WORDS,
        refusal=invalid(
            f"{name} is a word of engine vllm, and engine is {{workload.engine}}: leave it out"
        ),
        reason=f"{name} is a word of engine vllm",
        source=_SOURCE,
    )
    for name, field in (
        ("max_loras", workload.max_loras),
        ("max_lora_rank", workload.max_lora_rank),
    )
)
"""What transformers is asked, which serves one adapter after the other."""
