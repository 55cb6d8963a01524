"""Rules of engines for encoder-decoders, and for layers that keep states."""

from service.estimator.model.families.speculative import get_draft_model
from service.estimator.rules.grammar.conditions import (
    all_of,
    any_of,
    is_absent,
    is_false,
    is_in,
    is_not_in,
    is_true,
    satisfies,
)
from service.estimator.rules.grammar.facts import Case
from service.estimator.rules.grammar.fields import layout, model, workload
from service.estimator.rules.grammar.rule import Rule, Topic, invalid, unmodelled
from service.estimator.rules.predicates.models import get_serving, shares_states
from service.estimator.values.workload import Engine

NO_MODEL = Rule(
    when=is_in(workload.engine, Engine.VLLM, Engine.SGLANG),
    require=is_not_in(model.family, "bart", "mbart", "mt5", "t5"),
    field="workload.engine",
    topic=Topic.LABELS,
    refusal=invalid(
        "{workload.engine} has no model of {model.family}: ask for engine transformers, which "
        "serves encoder-decoders of text"
    ),
    reason="{workload.engine} has no model of {model.family}",
    source="vLLM 0.33.0, model_executor/models/registry.py; SGLang 0.5.23, srt/models",
)
"""Encoder-decoders that engines have no model of."""
_SOURCE = "vLLM 0.33.0, model_executor/models/registry.py"


def _is_draft_from_gguf(case: Case) -> bool:
    draft = get_draft_model(get_serving(case).speculative)
    return draft is not None and draft.gguf is not None


_SGLANG = "SGLang 0.5.23, srt/models and srt/mem_cache/kv_cache_configurator.py"
_ON_SGLANG = all_of(is_true(model.recurrent), is_in(workload.engine, Engine.SGLANG))
_SGLANG_STATES = (
    Rule(
        when=all_of(_ON_SGLANG, is_false(model.recorded)),
        require=is_in(
            model.family,
            *("falcon_h1", "falcon_mamba", "granitemoehybrid", "mamba", "mamba2", "nemotron_h"),
            "qwen3_next",
        ),
        field="workload.engine",
        topic=Topic.RECURRENT,
        refusal=invalid(
            "SGLang has no model of {model.family}: ask for engine vllm or transformers"
        ),
        reason="SGLang has no model of {model.family}",
        source=_SGLANG,
    ),
    Rule(
        when=_ON_SGLANG,
        require=is_in(layout.pipeline_parallel, 1),
        topic=Topic.RECURRENT,
        refusal=unmodelled(
            "pipeline_parallel of {model.family} on SGLang, whose layers keep a state",
            *("pipeline_parallel 1", "engine vllm"),
        ),
        reason="pipeline_parallel {layout.pipeline_parallel} of {model.family} on SGLang",
        source="SGLang 0.5.23, srt/models/qwen3_next.py and mamba2.py, which have one stage",
    ),
)

STATES = (
    Rule(
        require=any_of(
            is_false(model.recurrent), is_in(workload.engine, Engine.SGLANG, Engine.VLLM)
        ),
        topic=Topic.RECURRENT,
        refusal=unmodelled(
            "{workload.engine} with {model.family}, whose layers keep a state for each sequence",
            *("engine vllm", "engine transformers", "decoders with attention in every layer"),
            field="workload.engine",
        ),
        reason="layers of {model.family} keep a state for each sequence",
    ),
    *_SGLANG_STATES,
    Rule(
        require=is_not_in(model.family, "zamba2"),
        topic=Topic.RECURRENT,
        refusal=unmodelled(
            "{workload.engine} with zamba2, whose layers share their attention",
            *("engine transformers", "nemotron_h, jamba, mamba, mamba2, falcon_mamba, qwen3_next"),
            field="workload.engine",
        ),
        reason="layers of zamba2 share their attention",
    ),
    Rule(
        when=is_true(model.recurrent),
        require=satisfies(shares_states, layout.tensor_parallel),
        field=layout.tensor_parallel.path,
        topic=Topic.RECURRENT,
        refusal=unmodelled(
            "tensor_parallel {layout.tensor_parallel} of {model.family}, whose layers keep a state "
            "of heads or channels that so many ranks do not share",
            *("tensor_parallel 1", "a number that divides heads of keys and of values (Qwen3.5)"),
        ),
        reason="tensor_parallel {layout.tensor_parallel} of {model.family}, whose layers keep a "
        "state",
        source=_SOURCE,
    ),
    Rule(
        when=all_of(is_true(model.recurrent), is_not_in(workload.engine, Engine.VLLM)),
        require=is_absent(workload.speculative),
        topic=Topic.RECURRENT,
        refusal=unmodelled(
            "speculative decoding of {model.family} on {workload.engine}, whose states would be "
            "kept for every guess",
            *("engine vllm", "requests without speculative"),
        ),
        reason="speculative decoding of {model.family}, whose layers keep a state",
        source="SGLang 0.5.23, srt/mem_cache/memory_pool.py, SpeculativeState",
    ),
    Rule(
        when=satisfies(_is_draft_from_gguf, workload.speculative),
        require=is_in(workload.engine, Engine.LLAMA_CPP),
        field="workload.speculative.draft",
        topic=Topic.WEIGHTS,
        refusal=unmodelled(
            "a draft model from a GGUF file on {workload.engine}",
            *("engine llama_cpp", "engine transformers, which unpacks it"),
            "the draft by its config.json",
        ),
        reason="a draft model from a GGUF file on {workload.engine}",
        source="vLLM 0.24.0 moved GGUF to a plugin (vllm-project/vllm, number 39612)",
    ),
)
"""What engines are asked about models with states, and about drafts."""
