"""Rules that hold for all serving engines of their own."""

from service.estimator.rules.grammar.conditions import (
    all_of,
    any_of,
    is_above,
    is_absent,
    is_at_most,
    is_false,
    is_given,
    is_in,
    is_not_in,
    is_same,
    is_true,
    satisfies,
)
from service.estimator.rules.grammar.facts import Case
from service.estimator.rules.grammar.fields import LONGEST, TOKENS, layout, model, workload
from service.estimator.rules.grammar.rule import (
    NO_TERM,
    OTHERS,
    Rule,
    ShardingOption,
    Topic,
    invalid,
    unmodelled,
)
from service.estimator.rules.predicates.models import get_serving, keeps_own_format
from service.estimator.rules.tables.own_code import IMAGES
from service.estimator.rules.tables.recorded import RECORDED_ENGINES
from service.estimator.rules.tables.serving.adapter_slots import ADAPTER_SLOTS
from service.estimator.rules.tables.serving.draft_heads import DRAFT_HEADS
from service.estimator.rules.tables.serving.engine_ranks import (
    FINDS_EXPERTS_BESIDE_OWN,
    HUB_FORMATS,
    OWN_STAGES,
)
from service.estimator.rules.tables.serving.item_limits import ITEM_LIMITS
from service.estimator.rules.tables.serving.pooling import POOLING
from service.estimator.rules.tables.serving.sparse_latent import SPARSE_ENGINES
from service.estimator.rules.tables.serving.state_formats import STATE_FORMATS
from service.estimator.rules.tables.serving.states import NO_MODEL, STATES
from service.estimator.values.dtypes import DType
from service.estimator.values.generation import Client, Sampling
from service.estimator.values.layout import Sharding
from service.estimator.values.workload import Cache, Engine, Quantization

DTYPES = (DType.BF16, DType.FP16, DType.FP32)

REPLICAS = (
    ShardingOption(sharding=Sharding.DDP, zero_stages=(0,), source="replicas share nothing"),
)

ENGINE_TOPICS = (
    *(Topic.FORMATS, Topic.WEIGHTS, Topic.LABELS, Topic.RECURRENT, Topic.IMAGES),
    *(Topic.PRECISION, Topic.KV_CACHE, Topic.CACHE, Topic.BEAMS, Topic.ONE_STAGE, Topic.SPREAD),
)
"""What all engines are asked before anything of their own."""

MAKE = "vLLM 0.19.0, vllm/model_executor/layers/fused_moe/config.py, FusedMoEParallelConfig.make"


def _refuse_spread(case: Case) -> str:
    layout = case.layout
    ranks = layout.tensor_parallel * (layout.data_parallel if layout.expert_parallel > 1 else 1)
    spread = f"{layout.expert_parallel} x {layout.expert_tensor_parallel or layout.tensor_parallel}"
    return (
        f"experts stand on each of the {ranks} tensor x data ranks once, so that "
        f"expert_parallel x expert_tensor_parallel is {ranks}, not {spread}; leave "
        f"expert_tensor_parallel out, and say an expert_parallel that divides {ranks}"
    )


_SPREAD = invalid(_refuse_spread, field=layout.expert_parallel.path)

KEEPS_OWN_FORMAT = Rule(
    when=all_of(
        is_true(model.quantized),
        is_in(workload.quantization, *HUB_FORMATS),
        any_of(is_not_in(workload.quantization, Quantization.NONE), is_true(workload.unquantised)),
    ),
    require=satisfies(keeps_own_format, workload.quantization),
    topic=Topic.WEIGHTS,
    refusal=invalid(
        "quantization is {workload.quantization}, but the config packs its weights as "
        "{model.packing.value}; leave quantization out to serve them so, or ask for the model in "
        "16 bits, whose config has no quantization_config"
    ),
    source="the config's own quantization_config",
)
"""What a word about the weights has to agree with."""


READS_GGUF_AS_IT_IS = Rule(
    when=is_true(model.from_gguf),
    require=is_in(workload.quantization, Quantization.NONE),
    topic=Topic.WEIGHTS,
    refusal=invalid(
        "quantization is {workload.quantization}, but the tensors of a GGUF file have their types: "
        "leave quantization out, or ask for the model by its config.json"
    ),
    reason="a GGUF file, whose tensors have their types",
    source="transformers 5.23, quantizers/auto.py, get_hf_quantizer; llama.cpp, llama-model.cpp",
)
"""What reads a file does not quantise it anew."""


_GGUF_RULES = (
    Rule(
        when=is_true(model.from_gguf),
        require=is_in(workload.engine, Engine.LLAMA_CPP),
        field=workload.engine.path,
        topic=Topic.WEIGHTS,
        refusal=unmodelled(
            "a GGUF file on {workload.engine}",
            *("engine llama_cpp", "engine transformers, which unpacks it"),
            "the model by its config.json, with a quantization that the engine loads",
        ),
        reason="a GGUF file on {workload.engine}",
        source="vLLM 0.24.0 moved GGUF to a plugin (vllm-project/vllm, number 39612)",
    ),
    READS_GGUF_AS_IT_IS,
)


def _explain_length(case: Case) -> str:
    """Return which length is exceeded: what was said, or the model's own."""
    if get_serving(case).max_model_len is not None:
        return (
            f"max_model_len is {case.longest}, but prompt_tokens + output_tokens is "
            f"{case.tokens}; at least {case.tokens}"
        )
    return (
        f"prompt_tokens + output_tokens is {case.tokens}, and the model was made for "
        f"{case.longest} (max_position_embeddings), the default of max_model_len: ask for fewer, "
        f"say max_model_len {case.tokens} where the engine is told to go beyond them, or give a "
        "config of longer positions (rope_scaling)"
    )


ENGINES = (
    *RECORDED_ENGINES,
    Rule(
        require=is_at_most(TOKENS, LONGEST),
        field=workload.max_model_len.path,
        topic=Topic.LENGTH,
        refusal=invalid(_explain_length),
        reason="{workload.prompt_tokens} + {workload.output_tokens} tokens are more than a "
        "sequence may have",
        source="vLLM 0.19.0, vllm/config/model.py, _get_and_verify_max_len",
    ),
    Rule(
        when=is_above(model.learned_positions, 0),
        require=is_at_most(LONGEST, model.learned_positions),
        field=workload.max_model_len.path,
        topic=Topic.LENGTH,
        refusal=invalid(
            lambda case: (
                f"{case.longest} tokens, but {case.model.family} has learned positions "
                f"for {case.model.learned_positions}"
            )
        ),
        reason="{model.family} has learned positions for {model.learned_positions} tokens",
        source="the model's position table (max_position_embeddings)",
    ),
    NO_MODEL,
    *SPARSE_ENGINES,
    *POOLING,
    *STATES,
    *DRAFT_HEADS,
    *(
        Rule(
            when=is_not_in(workload.engine, Engine.SGLANG, Engine.VLLM),
            require=is_absent(field),
            topic=Topic.IMAGES,
            refusal=unmodelled(
                "images in the prompts of {workload.engine}",
                *("engine transformers, vllm or sglang", "text alone"),
            ),
        )
        for field in (workload.num_images, workload.image_tokens, workload.inputs)
    ),
    *IMAGES,
    Rule(
        require=is_in(workload.weight_dtype, *DTYPES),
        topic=Topic.PRECISION,
        refusal=OTHERS,
        reason="weights in {workload.weight_dtype}; say quantization",
    ),
    Rule(
        require=is_in(workload.num_beams, 1),
        topic=Topic.BEAMS,
        refusal=unmodelled("beam search", "1"),
        reason="beam search on an engine",
    ),
    *(
        Rule(
            require=condition,
            topic=Topic.BEAMS,
            refusal=unmodelled(
                f"{name} {{workload.{name}}} of {{workload.engine}}",
                *(f"requests without {name}", "engine transformers"),
            ),
            reason=f"{name} is a word about transformers",
            source="transformers 5.23, generation/utils.py",
        )
        for name, condition in (
            ("client", is_in(workload.client, Client.GENERATE)),
            ("sampling", is_in(workload.sampling, Sampling.GREEDY)),
        )
    ),
    Rule(
        require=is_in(workload.cache, Cache.DYNAMIC, Cache.PAGED),
        topic=Topic.CACHE,
        refusal=invalid(
            "{workload.engine} lays its cache out by itself when it starts; leave cache out, or "
            "say paged"
        ),
        reason="{workload.engine} lays its cache out by itself when it starts",
        source="arXiv:2309.06180",
    ),
    *(
        Rule(
            require=is_in(field, idle),
            topic=Topic.ONE_STAGE,
            refusal=unmodelled(f"{name} {{{field.path}}} in serving", str(idle)),
            reason=reason,
            source=source,
        )
        for name, field, idle, reason, source in (
            (
                *("context_parallel", layout.context_parallel, 1),
                *("context_parallel {layout.context_parallel} in serving", NO_TERM),
            ),
            (
                *("zero_stage", layout.zero_stage, 0),
                *("serving has no optimizer to shard", "arXiv:1910.02054, section 5"),
            ),
            (
                *("virtual_pipeline_stages", layout.virtual_pipeline_stages, 1),
                "virtual_pipeline_stages {layout.virtual_pipeline_stages} in serving",
                NO_TERM,
            ),
        )
    ),
    *OWN_STAGES,
    Rule(
        when=is_in(layout.expert_parallel, 1),
        require=any_of(
            is_absent(layout.expert_tensor_parallel),
            is_same(layout.expert_tensor_parallel, layout.tensor_parallel),
        ),
        topic=Topic.SPREAD,
        refusal=_SPREAD,
        reason="expert_tensor_parallel {layout.expert_tensor_parallel} of experts that are not "
        "spread, which tensor_parallel {layout.tensor_parallel} ranks split as they split layers",
        source=MAKE,
    ),
    Rule(
        when=is_above(layout.expert_parallel, 1),
        require=any_of(
            all_of(
                is_absent(layout.expert_tensor_parallel),
                is_same(layout.expert_parallel, layout.data_parallel),
            ),
            all_of(
                is_given(layout.expert_tensor_parallel),
                is_same(
                    (layout.expert_parallel, layout.expert_tensor_parallel),
                    (layout.tensor_parallel, layout.data_parallel),
                ),
            ),
        ),
        field=layout.expert_tensor_parallel.path,
        topic=Topic.SPREAD,
        refusal=_SPREAD,
        reason="experts stand on all tensor_parallel {layout.tensor_parallel} x data_parallel "
        "{layout.data_parallel} ranks once: expert_parallel {layout.expert_parallel} x "
        "expert_tensor_parallel has to be as many",
        source="SGLang 0.5.6, python/sglang/srt/distributed/parallel_state.py, "
        "initialize_model_parallel; vLLM 0.19.0, FusedMoEParallelConfig.make",
    ),
    Rule(
        require=is_false(layout.sequence_parallel),
        topic=Topic.ONE_STAGE,
        refusal=unmodelled("sequence_parallel in serving", "false"),
        reason="sequence_parallel in serving",
    ),
    FINDS_EXPERTS_BESIDE_OWN,
    KEEPS_OWN_FORMAT,
    *_GGUF_RULES,
    *ADAPTER_SLOTS,
    *ITEM_LIMITS,
    *STATE_FORMATS,
)
"""What holds for every engine of its own."""
