"""Rules of weights on the host, and of llama.cpp's GPUs."""

from typing import Any

from service.estimator.rules.grammar.conditions import (
    Field,
    any_of,
    is_absent,
    is_at_most,
    is_given,
    is_in,
    is_not_in,
    satisfies,
)
from service.estimator.rules.grammar.facts import Case
from service.estimator.rules.grammar.fields import layout, model, workload
from service.estimator.rules.grammar.rule import Rule, Topic, invalid, unmodelled
from service.estimator.rules.predicates.models import get_serving
from service.estimator.rules.tables.serving.draft_heads import DRAFT_HEADS
from service.estimator.values.workload import Attention, Engine

_ARGUMENTS = "llama.cpp, common/arg.cpp"


def _refuse_word(name: str, field: Field[Any], engines: str) -> Rule:
    return Rule(
        require=is_absent(field),
        topic=Topic.WORDS,
        refusal=invalid(
            f"{name} is a word of {engines}, and engine is {{workload.engine}}: leave it out, or "
            f"ask for {engines}",
            field=f"workload.{name}",
        ),
        reason=f"{name} is a word of {engines}",
        source=_ARGUMENTS,
    )


def _refuse_pool(field: Field[int | None], *engines: Engine, source: str) -> Rule:
    name, known = field.path.rpartition(".")[2], " or ".join(engines)
    return Rule(
        require=any_of(is_absent(field), is_in(workload.engine, *engines)),
        field=field.path,
        topic=Topic.WORDS,
        refusal=unmodelled(
            f"{name} on {{workload.engine}}", f"engine {known}", f"requests without {name}"
        ),
        reason=f"{name} is a word of engine {known}",
        source=source,
    )


_POOL_SIZES = (
    _refuse_pool(
        workload.kv_pool_bytes,
        Engine.VLLM,
        source="vLLM 0.33.0, config/cache.py, kv_cache_memory_bytes",
    ),
    _refuse_pool(
        workload.kv_pool_blocks,
        Engine.VLLM,
        source="vLLM 0.33.0, config/cache.py, num_gpu_blocks_override",
    ),
    _refuse_pool(
        workload.kv_pool_tokens,
        *(Engine.SGLANG, Engine.TENSORRT_LLM),
        source="SGLang 0.5.23, max_total_tokens; TensorRT-LLM 1.2, KvCacheConfig.max_tokens",
    ),
)
_LLAMA_CPP_WORDS = (
    *_POOL_SIZES,
    _refuse_word("gpu_layers", workload.gpu_layers, "engine llama_cpp"),
    _refuse_word("cpu_moe_layers", workload.cpu_moe_layers, "engine llama_cpp"),
    _refuse_word("tensor_split", workload.tensor_split, "engine llama_cpp"),
    _refuse_word("cache_type", workload.cache_type, "engine llama_cpp"),
)
KEEPS_SOME_WEIGHTS = _LLAMA_CPP_WORDS
"""vLLM and SGLang keep GiB of weights on the host (``cpu_offload_gb``), not layers."""
KEEPS_NO_WEIGHTS = (
    *_LLAMA_CPP_WORDS,
    _refuse_word("cpu_offload_gb", workload.cpu_offload_gb, "engine vllm or sglang"),
)
"""Engines that keep all weights on GPUs."""


def _shares_among_all(case: Case) -> bool:
    """Return whether each GPU has a share, and some is positive."""
    shares, gpus = get_serving(case).tensor_split, case.layout
    number = gpus.tensor_parallel * gpus.pipeline_parallel
    return shares is None or (len(shares) == number and sum(shares) > 0.0)


LLAMA_CPP_SPLITS = (
    *_POOL_SIZES,
    Rule(
        when=is_given(workload.tensor_split),
        require=satisfies(
            _shares_among_all,
            workload.tensor_split,
            layout.tensor_parallel,
            layout.pipeline_parallel,
        ),
        field=workload.tensor_split.path,
        topic=Topic.WORDS,
        refusal=invalid(
            "tensor_split has a share for each GPU of pipeline_parallel or tensor_parallel, not "
            "all of them 0: leave it out for equal ones"
        ),
        reason="tensor_split of another number of GPUs",
        source=f"{_ARGUMENTS}: --tensor-split",
    ),
    Rule(
        when=is_given(workload.cache_type),
        require=is_not_in(workload.attention, Attention.EAGER),
        field=workload.cache_type.path,
        topic=Topic.WORDS,
        refusal=invalid(
            "cache_type {workload.cache_type} needs flash attention, and attention is eager: leave "
            "one of them out"
        ),
        reason="cache_type {workload.cache_type} with attention eager",
        source="llama.cpp, src/llama-context.cpp: V cache quantization requires flash_attn",
    ),
    Rule(
        require=any_of(is_in(layout.tensor_parallel, 1), is_in(layout.pipeline_parallel, 1)),
        topic=Topic.WORDS,
        refusal=invalid(
            "llama.cpp splits by layers (pipeline_parallel, --split-mode layer) or by rows "
            "(tensor_parallel, --split-mode row), not by both",
            field="layout.tensor_parallel",
        ),
        reason="llama.cpp splits by layers or by rows, not by both",
        source=f"{_ARGUMENTS}: --split-mode",
    ),
    Rule(
        require=is_at_most(layout.pipeline_parallel, model.num_hidden_layers),
        topic=Topic.WORDS,
        refusal=invalid(
            "pipeline_parallel is {layout.pipeline_parallel}, but the model has "
            "{model.num_hidden_layers} layers"
        ),
        reason="pipeline_parallel {layout.pipeline_parallel}, but the model has "
        "{model.num_hidden_layers} layers",
        source="llama.cpp, src/llama-model.cpp, load_tensors",
    ),
    Rule(
        require=is_in(layout.expert_parallel, 1),
        topic=Topic.WORDS,
        refusal=unmodelled("expert_parallel of llama.cpp", "pipeline_parallel, tensor_parallel"),
        reason="expert_parallel {layout.expert_parallel} of llama.cpp",
        source=f"{_ARGUMENTS}: --split-mode",
    ),
    Rule(
        when=is_in(model.num_experts, 0),
        require=is_absent(workload.cpu_moe_layers),
        topic=Topic.WORDS,
        refusal=invalid("cpu_moe_layers is of experts, and {model.family} has none: leave it out"),
        reason="cpu_moe_layers of {model.family}, which has no experts",
        source=f"{_ARGUMENTS}: --n-cpu-moe",
    ),
    *(
        Rule(
            when=is_given(workload.speculative),
            require=require,
            topic=Topic.WORDS,
            refusal=unmodelled(f"a draft model beside {name}", "one GPU that holds all layers"),
            reason=f"a draft model beside {name}",
            source=_ARGUMENTS,
        )
        for name, require in (
            ("several GPUs", is_in(layout.tensor_parallel, 1)),
            ("several GPUs", is_in(layout.pipeline_parallel, 1)),
            ("layers on the host", is_absent(workload.gpu_layers)),
            ("experts on the host", is_absent(workload.cpu_moe_layers)),
        )
    ),
)
"""What llama.cpp is asked about its GPUs and the host."""

TRANSFORMERS_KEEPS_ALL = (
    *_LLAMA_CPP_WORDS,
    *DRAFT_HEADS,
    Rule(
        require=is_absent(workload.cpu_offload_gb),
        topic=Topic.WORDS,
        refusal=unmodelled(
            "cpu_offload_gb of transformers (device_map with weights on the CPU)",
            *("engine vllm or sglang with cpu_offload_gb", "engine llama_cpp with gpu_layers"),
        ),
        reason="cpu_offload_gb of transformers",
        source="accelerate 1.15, hooks.py, AlignDevicesHook",
    ),
)
"""transformers with all weights on GPUs."""
