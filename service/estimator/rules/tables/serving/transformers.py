"""Rules of engine ``transformers``."""

from service.estimator.model.adapters.frozen import TRAINABLE
from service.estimator.model.weights.scheme import Packing
from service.estimator.rules.grammar.conditions import (
    any_of,
    is_above,
    is_absent,
    is_at_most,
    is_false,
    is_in,
    is_not_in,
    is_same,
    is_true,
    satisfies,
)
from service.estimator.rules.grammar.facts import Case
from service.estimator.rules.grammar.fields import LONGEST, TOKENS, layout, model, workload
from service.estimator.rules.grammar.rule import (
    OTHERS,
    Refusal,
    Rule,
    RuleTable,
    Topic,
    invalid,
    unmodelled,
)
from service.estimator.rules.predicates.models import get_served_packing, get_serving
from service.estimator.rules.tables.own_code import IMAGES, KERNELS, make_flash_rule
from service.estimator.rules.tables.recorded import RECORDED_SERVING
from service.estimator.rules.tables.serving.adapter_slots import NO_ADAPTER_SLOTS
from service.estimator.rules.tables.serving.encoders import ENCODERS
from service.estimator.rules.tables.serving.engine_ranks import (
    FINDS_EXPERTS,
    PACKS_EXPERTS,
    make_hub_formats,
)
from service.estimator.rules.tables.serving.engines import (
    DTYPES,
    KEEPS_OWN_FORMAT,
    READS_GGUF_AS_IT_IS,
    REPLICAS,
)
from service.estimator.rules.tables.serving.host_weights import TRANSFORMERS_KEEPS_ALL
from service.estimator.rules.tables.serving.item_limits import NO_ITEM_LIMITS
from service.estimator.rules.tables.serving.sparse_latent import STATIC_INDEX
from service.estimator.rules.tables.serving.state_formats import NO_STATE_FORMAT
from service.estimator.rules.tables.transformers_layouts import ONE_SEQUENCE, make_layout_rules
from service.estimator.values.generation import Client, Sampling
from service.estimator.values.workload import Cache, Engine, Quantization

_GENERATE = "transformers 5.23, generation/utils.py"

_NO_DECODER = is_false(model.decoder)


def _refuse_plan(case: Case) -> str:
    packed = " with quantised weights" if case.model.quantized else ""
    return f"tensor_parallel of {case.model.family}{packed}"


_PLAN = unmodelled(
    _refuse_plan,
    *("dense 16-bit families with a base_model_tp_plan", "engine vllm"),
    field=layout.tensor_parallel.path,
)

_LAYOUTS = (ONE_SEQUENCE, *make_layout_rules(_PLAN))


def _has_products(case: Case) -> bool:
    return get_served_packing(case) in {None, Packing.MXFP4, *TRAINABLE}


def _get_packing_field(case: Case) -> str:
    named = get_serving(case).quantization is not Quantization.NONE
    return workload.quantization.path if named else "model.quantization_config"


def _get_packing_name(case: Case) -> str:
    packing = get_served_packing(case)
    return "" if packing is None else packing.value


_RUNS = (
    Rule(require=is_in(workload.engine, Engine.TRANSFORMERS), topic=Topic.RUNNER, refusal=OTHERS),
    Rule(
        require=is_in(workload.weight_dtype, *DTYPES),
        topic=Topic.PRECISION,
        refusal=OTHERS,
        reason="weights in {workload.weight_dtype}; say quantization",
    ),
    Rule(
        require=is_same(workload.kv_cache_dtype, workload.weight_dtype),
        topic=Topic.KV_CACHE,
        refusal=unmodelled(
            "kv_cache_dtype {workload.kv_cache_dtype} beside {workload.weight_dtype} weights",
            "the dtype of the weights",
        ),
        reason="kv_cache_dtype {workload.kv_cache_dtype} beside {workload.weight_dtype} weights",
        source="transformers 5.23, cache_utils.py: keys and values as the layers give them",
    ),
    *KERNELS,
    make_flash_rule(workload.weight_dtype),
    *(
        Rule(
            when=is_in(workload.client, Client.LOOP),
            require=condition,
            topic=Topic.BEAMS,
            refusal=invalid(
                f"{name} is {{workload.{name}}}, which generate does and a plain loop does not: "
                "say client generate, or leave client out"
            ),
            reason=f"{name} {{workload.{name}}} in a plain loop",
            source=_GENERATE,
        )
        for name, condition in (
            ("num_beams", is_in(workload.num_beams, 1)),
            ("sampling", is_in(workload.sampling, Sampling.GREEDY)),
        )
    ),
    Rule(
        require=is_false(workload.enforce_eager),
        topic=Topic.EAGER,
        refusal=unmodelled("enforce_eager true", "enforce_eager false"),
        reason="enforce_eager is vLLM's",
        source="vLLM 0.19.0, vllm/config/model.py",
    ),
    Rule(
        require=is_in(layout.zero_stage, 0),
        topic=Topic.ZERO,
        refusal=invalid(
            "zero_stage is {layout.zero_stage}, but serving has no optimizer to shard; leave it at "
            "0"
        ),
        reason="serving has no optimizer to shard",
        source="arXiv:1910.02054, section 5",
    ),
)
"""What holds for decoders and for models that write no tokens."""

_DECODERS = (
    make_hub_formats("transformers 5.23, quantizers/auto.py"),
    PACKS_EXPERTS,
    FINDS_EXPERTS,
    KEEPS_OWN_FORMAT,
    READS_GGUF_AS_IT_IS,
    Rule(
        when=is_true(model.shares_weights),
        require=satisfies(lambda case: get_served_packing(case) is None, workload.quantization),
        topic=Topic.SHARED,
        refusal=unmodelled(
            "quantised weights of {model.family}, whose layers share some",
            "weights that are not quantised",
        ),
    ),
    Rule(
        when=any_of(is_true(model.quantized), is_not_in(workload.quantization, Quantization.NONE)),
        require=satisfies(_has_products, workload.quantization),
        topic=Topic.SHARED,
        refusal=Refusal(
            text=lambda case: f"products with {_get_packing_name(case)} weights",
            modelled=tuple(TRAINABLE),
            field=_get_packing_field,
        ),
    ),
    Rule(
        require=is_in(workload.cache, Cache.DYNAMIC, Cache.STATIC),
        topic=Topic.CACHE,
        refusal=OTHERS,
        reason="transformers has no paged cache in generate",
        source="transformers 5.23, cache_utils.py",
    ),
    STATIC_INDEX,
    *(
        Rule(
            require=is_absent(field),
            topic=Topic.WORDS,
            refusal=unmodelled(name, f"requests without {name}"),
            reason=f"{name} changes nothing on transformers",
            source=_GENERATE,
        )
        for name, field in (
            ("gpu_memory_fraction", workload.gpu_memory_fraction),
            ("max_num_batched_tokens", workload.max_num_batched_tokens),
            ("max_num_sequences", workload.max_num_sequences),
        )
    ),
    Rule(
        require=any_of(is_absent(workload.max_model_len), is_in(workload.cache, Cache.STATIC)),
        topic=Topic.STATES,
        refusal=unmodelled("max_model_len of a {workload.cache} cache", "cache static"),
        reason="max_model_len is the length of a static cache, and the cache is {workload.cache}",
        source="transformers 5.23, cache_utils.py: StaticCache alone has max_cache_len",
    ),
    Rule(
        require=any_of(is_absent(workload.max_model_len), is_at_most(TOKENS, LONGEST)),
        topic=Topic.LENGTH,
        refusal=invalid(
            lambda case: (
                f"max_model_len is {case.longest}, but prompt_tokens + output_tokens is "
                f"{case.tokens}; at least {case.tokens}"
            )
        ),
        reason="{workload.prompt_tokens} + {workload.output_tokens} tokens are more than the cache "
        "has",
        source="transformers 5.23, cache_utils.py, StaticCache",
    ),
    Rule(
        when=is_above(model.learned_positions, 0),
        require=is_at_most(TOKENS, model.learned_positions),
        field=workload.prompt_tokens.path,
        topic=Topic.SEQUENCE,
        refusal=invalid(
            lambda case: (
                f"{case.tokens} tokens, but {case.model.family} has learned positions for "
                f"{case.model.learned_positions}; give prompt_tokens and output_tokens that are "
                "no more together"
            )
        ),
        reason="{workload.prompt_tokens} + {workload.output_tokens} tokens, but {model.family} has "
        "learned positions for {model.learned_positions}",
        source="the model's position table (max_position_embeddings)",
    ),
    Rule(
        when=is_above(layout.tensor_parallel, 1),
        require=is_in(workload.quantization, Quantization.NONE),
        topic=Topic.BESIDE_TENSORS,
        refusal=unmodelled(
            "quantization {workload.quantization} of layers that ranks share",
            *("none", "engine vllm"),
        ),
        reason="quantization {workload.quantization} of layers that ranks share",
    ),
    Rule(
        when=is_above(layout.tensor_parallel, 1),
        require=is_false(model.quantized),
        topic=Topic.PLAN,
        refusal=_PLAN,
        reason="tensor_parallel of quantised weights",
    ),
    Rule(
        require=is_false(layout.sequence_parallel),
        topic=Topic.BESIDE_TENSORS,
        refusal=unmodelled("sequence_parallel in serving", "false"),
        reason="sequence_parallel in serving",
    ),
)

SERVE_TRANSFORMERS = RuleTable(
    name="serve_transformers",
    beside=(*_LAYOUTS, *_DECODERS[:2], *ENCODERS),
    rules=(
        *(*RECORDED_SERVING, *_DECODERS, *_RUNS, *IMAGES, *_LAYOUTS),
        *(*TRANSFORMERS_KEEPS_ALL, *NO_ADAPTER_SLOTS, *NO_ITEM_LIMITS, *NO_STATE_FORMAT),
    ),
    topics=(
        *(Topic.RUNNER, Topic.FORMATS, Topic.WEIGHTS, Topic.SHARED, Topic.CACHE),
        *(
            Topic.PRECISION,
            Topic.KV_CACHE,
            Topic.WORDS,
            Topic.EAGER,
            Topic.LENGTH,
            Topic.STATES,
            Topic.IMAGES,
        ),
        *(Topic.SEQUENCE, Topic.ATTENTION, Topic.RECURRENT, Topic.DIVISIBLE, Topic.PLAN),
        *(Topic.ONE_STAGE, Topic.SHARDING, Topic.BESIDE_TENSORS, Topic.ZERO, Topic.BEAMS),
    ),
    sharding_options=REPLICAS,
)

SERVE_ENCODERS = RuleTable(
    name="serve_transformers",
    rules=(
        *(*RECORDED_SERVING, *ENCODERS, *_RUNS, *IMAGES, *_LAYOUTS),
        *(*TRANSFORMERS_KEEPS_ALL, *NO_ADAPTER_SLOTS, *NO_ITEM_LIMITS, *NO_STATE_FORMAT),
    ),
    topics=(
        *(Topic.RUNNER, Topic.FORMATS, Topic.PRECISION, Topic.CACHE, Topic.WORDS, Topic.EAGER),
        *(Topic.KV_CACHE, Topic.BEAMS, Topic.IMAGES, Topic.SEQUENCE, Topic.ATTENTION),
        *(Topic.PLAN, Topic.ONE_STAGE, Topic.SHARDING, Topic.ZERO, Topic.LABELS, Topic.HALF),
        Topic.DECODER,
    ),
)
"""What models that write no tokens, and those of two stacks, are asked instead."""
