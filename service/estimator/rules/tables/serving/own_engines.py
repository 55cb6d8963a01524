"""Rules of vLLM, SGLang, TensorRT-LLM and llama.cpp."""

from service.estimator.model.positions import count_served_positions
from service.estimator.rules.grammar.conditions import (
    any_of,
    is_above,
    is_absent,
    is_false,
    is_given,
    is_in,
    is_not_in,
    is_same,
    is_true,
    satisfies,
)
from service.estimator.rules.grammar.facts import Case
from service.estimator.rules.grammar.fields import layout, model, workload
from service.estimator.rules.grammar.rule import (
    OTHERS,
    Refusal,
    Rule,
    RuleTable,
    Topic,
    invalid,
    unmodelled,
)
from service.estimator.rules.predicates.models import get_serving
from service.estimator.rules.tables.serving.engine_ranks import (
    DRAFTS_WITHOUT_STAGES,
    make_split_rules,
)
from service.estimator.rules.tables.serving.engines import ENGINE_TOPICS, ENGINES, MAKE, REPLICAS
from service.estimator.rules.tables.serving.host_weights import (
    KEEPS_NO_WEIGHTS,
    KEEPS_SOME_WEIGHTS,
    LLAMA_CPP_SPLITS,
)
from service.estimator.rules.tables.serving.removed import REMOVED_MODELS
from service.estimator.values.dtypes import DType
from service.estimator.values.workload import Quantization

_SGLANG = "SGLang 0.5, python/sglang/srt/server_args.py and layers/linear.py"
_GGUF = (
    *(Quantization.NONE, Quantization.INT8, Quantization.MXFP4, Quantization.Q8_0),
    *(Quantization.Q6_K, Quantization.Q5_K_M, Quantization.Q4_K_M, Quantization.Q4_0),
)
"""Formats of GGUF files."""


def _refuse_some_ranks(case: Case) -> str:
    ranks = case.layout.tensor_parallel * case.layout.data_parallel
    return (
        f"vLLM spreads whole experts over all tensor x data ranks: expert_parallel is 1 or {ranks}"
    )


def _keeps_max_seq_len(case: Case) -> bool:
    """Return whether a requested length is within the inferred one."""
    workload = get_serving(case)
    positions = count_served_positions(case.model.tree.spec, workload.engine)
    return not positions or (workload.max_model_len or 0) <= positions


def _refuse_max_seq_len(case: Case) -> str:
    workload = get_serving(case)
    positions = count_served_positions(case.model.tree.spec, workload.engine)
    return (
        f"max_model_len is {workload.max_model_len}, which TensorRT-LLM lowers to {positions}, "
        f"what the config's positions come to: say at most {positions}, or give a config of "
        "longer positions (rope_scaling)"
    )


SERVE_VLLM = RuleTable(
    name="serve_vllm",
    rules=(
        *ENGINES,
        Rule(
            require=is_not_in(model.family, "codegen", "gpt_neo"),
            field="workload.engine",
            topic=Topic.MODEL,
            refusal=invalid("vLLM has no model of {model.family}: ask for engine transformers"),
            reason="vLLM has no model of {model.family}",
            source="vLLM 0.19.0, vllm/model_executor/models/registry.py",
        ),
        REMOVED_MODELS,
        *make_split_rules("vLLM 0.19.0, vllm/config/model.py, verify_with_parallel_config"),
        *KEEPS_SOME_WEIGHTS,
        Rule(
            require=any_of(
                is_in(layout.expert_parallel, 1),
                is_same(layout.expert_parallel, (layout.tensor_parallel, layout.data_parallel)),
            ),
            topic=Topic.EXPERTS,
            refusal=invalid(_refuse_some_ranks),
            reason="vLLM spreads whole experts over all tensor x data ranks: expert_parallel is 1 "
            "or tensor_parallel {layout.tensor_parallel} x data_parallel {layout.data_parallel}",
            source=f"{MAKE}: ep_size is the flattened tensor, context and data size",
        ),
        DRAFTS_WITHOUT_STAGES,
    ),
    topics=(*ENGINE_TOPICS, Topic.WORDS, Topic.MODEL, Topic.EXPERTS),
    sharding_options=REPLICAS,
)
SERVE_SGLANG = RuleTable(
    name="serve_sglang",
    rules=(
        *ENGINES,
        *make_split_rules(_SGLANG),
        *KEEPS_SOME_WEIGHTS,
        DRAFTS_WITHOUT_STAGES,
    ),
    topics=(*ENGINE_TOPICS, Topic.WORDS),
    sharding_options=REPLICAS,
)
_TENSORRT_LLM_MODELS = (
    *(
        "scaled",
        "cohere2",
        "deepseek_v2",
        "deepseek_v3",
        "exaone4",
        "gemma3",
        "gemma3_text",
        "glm4_moe",
    ),
    *("gpt_oss", "granite", "llama", "llama4_text", "mistral", "mistral3", "mixtral", "nemotron"),
    *("olmo3", "phi3", "qwen2", "qwen2_5_vl", "qwen2_moe", "qwen2_vl", "qwen3", "qwen3_moe"),
    *("seed_oss", "smollm3", "starcoder2"),
)
SERVE_TENSORRT_LLM = RuleTable(
    name="serve_tensorrt_llm",
    rules=(
        *ENGINES,
        Rule(
            when=is_false(model.recorded),
            require=is_in(model.family, *_TENSORRT_LLM_MODELS),
            field="workload.engine",
            topic=Topic.MODEL,
            refusal=invalid(
                "TensorRT-LLM's PyTorch backend has no model of {model.family}: ask for an engine "
                "that has one (headroom families {model.family} lists them)"
            ),
            reason="TensorRT-LLM's PyTorch backend has no model of {model.family}",
            source="TensorRT-LLM at 065ff9e9, _torch/models/_arch_index.py; "
            "docs/source/models/supported-models.md",
        ),
        Rule(
            when=is_given(workload.max_model_len),
            require=satisfies(_keeps_max_seq_len, workload.max_model_len),
            topic=Topic.MODEL,
            refusal=invalid(_refuse_max_seq_len),
            reason="TensorRT-LLM lowers max_seq_len to the model's positions",
            source="TensorRT-LLM 1.0, _torch/pyexecutor/model_engine.py, _init_max_seq_len",
        ),
        *make_split_rules("TensorRT-LLM 1.0, tensorrt_llm/mapping.py and llmapi/llm_args.py"),
        *KEEPS_NO_WEIGHTS,
        Rule(
            when=is_above(layout.expert_parallel, 1),
            require=any_of(is_in(layout.data_parallel, 1), is_in(layout.tensor_parallel, 1)),
            topic=Topic.BESIDE_TENSORS,
            refusal=invalid(
                "TensorRT-LLM splits attention over all ranks of a server or over none: with "
                "expert_parallel, tensor_parallel or data_parallel is 1"
            ),
            reason="attention of TensorRT-LLM is split over all ranks of a server or over none: "
            "tensor_parallel {layout.tensor_parallel} x data_parallel {layout.data_parallel} with "
            "experts spread is neither",
            source="TensorRT-LLM 1.0, tensorrt_llm/llmapi/llm_args.py, enable_attention_dp",
        ),
        DRAFTS_WITHOUT_STAGES,
    ),
    topics=(*ENGINE_TOPICS, Topic.WORDS, Topic.MODEL),
    sharding_options=REPLICAS,
)
TENSORRT_LLM_RANKS = RuleTable(
    name="serve_tensorrt_llm", rules=SERVE_TENSORRT_LLM.rules, topics=(Topic.BESIDE_TENSORS,)
)
"""What TensorRT-LLM is asked once its version is read."""
ENGINE_LENGTHS = RuleTable(name="engines", rules=ENGINES, topics=(Topic.LENGTH,))
"""What engines are asked once their settings are read."""


def _suits_gguf_cache(case: Case) -> bool:
    workload = get_serving(case)
    return workload.kv_cache_dtype in {workload.weight_dtype, DType.FP16, DType.BF16}


SERVE_LLAMA_CPP = RuleTable(
    name="serve_llama_cpp",
    rules=(
        *ENGINES,
        Rule(
            require=is_in(workload.quantization, *_GGUF),
            topic=Topic.FORMATS,
            refusal=OTHERS,
            reason="{workload.quantization} is no format of GGUF files",
            source="llama.cpp, src/llama-quant.cpp",
        ),
        Rule(
            when=is_in(model.num_experts, 0),
            require=is_not_in(workload.quantization, Quantization.MXFP4),
            topic=Topic.WORDS,
            refusal=unmodelled(
                "mxfp4 of {model.family}, which has no experts to pack so",
                "q8_0, which its other tensors get",
            ),
            reason="mxfp4 of {model.family}, which has no experts to pack so",
            source="llama.cpp, src/llama-quant.cpp: LLAMA_FTYPE_MOSTLY_MXFP4_MOE",
        ),
        Rule(
            require=is_true(model.converts),
            topic=Topic.STATES,
            refusal=invalid(
                "llama.cpp reads GGUF files: say their format as quantization, and drop the "
                "config's quantization_config",
                field="model",
            ),
            reason="llama.cpp reads GGUF files, which nobody makes of the config's quantised "
            "weights",
            source="llama.cpp, convert_hf_to_gguf.py",
        ),
        Rule(
            require=is_in(workload.kv_cache_dtype, DType.BF16, DType.FP16, DType.FP32),
            reason="kv_cache_dtype {workload.kv_cache_dtype}: the term is of 16 bits",
            source="llama.cpp, --cache-type-k",
        ),
        Rule(
            require=satisfies(_suits_gguf_cache, workload.kv_cache_dtype, workload.weight_dtype),
            topic=Topic.KV_CACHE,
            refusal=Refusal(
                text="kv_cache_dtype '{workload.kv_cache_dtype}'",
                modelled=lambda case: list(
                    dict.fromkeys((str(get_serving(case).weight_dtype), "fp16", "bf16"))
                ),
            ),
            source="llama.cpp, --cache-type-k",
        ),
        *LLAMA_CPP_SPLITS,
        *(
            Rule(
                require=is_absent(field),
                topic=Topic.WORDS,
                refusal=unmodelled(f"{name} of llama.cpp", f"requests without {name}"),
                reason=f"{name} of llama.cpp",
                source="llama.cpp, common/arg.cpp",
            )
            for name, field in (
                ("gpu_memory_fraction", workload.gpu_memory_fraction),
                ("max_num_sequences", workload.max_num_sequences),
                ("engine_version", workload.engine_version),
                ("cpu_offload_gb", workload.cpu_offload_gb),
            )
        ),
    ),
    topics=(*ENGINE_TOPICS, Topic.LENGTH, Topic.STATES, Topic.WORDS),
    sharding_options=REPLICAS,
)
