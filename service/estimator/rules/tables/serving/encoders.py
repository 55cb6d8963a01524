"""Rules of served models that write no tokens or have two stacks."""

from service.estimator.rules.grammar.conditions import (
    Field,
    all_of,
    is_above,
    is_absent,
    is_at_most,
    is_false,
    is_in,
    is_not_in,
    is_true,
    satisfies,
)
from service.estimator.rules.grammar.fields import layout, model, workload
from service.estimator.rules.grammar.rule import OTHERS, Rule, Topic, invalid, unmodelled
from service.estimator.rules.predicates.models import (
    count_served_tokens,
    describe_reader,
    fits_served_decoder,
    get_serving,
)
from service.estimator.values.dtypes import DType
from service.estimator.values.workload import Cache, Quantization

_GENERATE = "transformers 5.23, generation/utils.py"

_NO_DECODER = is_false(model.decoder)

ENCODERS = (
    Rule(
        when=_NO_DECODER,
        require=is_in(workload.quantization, Quantization.NONE),
        topic=Topic.FORMATS,
        refusal=OTHERS,
        reason=lambda case: f"quantization of {describe_reader(case)}",
    ),
    Rule(
        when=is_true(model.keeps_fp32),
        require=is_not_in(workload.weight_dtype, DType.FP16),
        topic=Topic.HALF,
        refusal=unmodelled(
            "fp16 weights of {model.family}, whose {model.tree.keeps_fp32} transformers keeps in "
            "fp32",
            *("bf16", "fp32"),
        ),
        reason="fp16 weights of {model.family}, of which transformers keeps some layers in fp32 "
        "then",
        source="transformers 5.23, _keep_in_fp32_modules",
    ),
    Rule(
        when=_NO_DECODER,
        require=is_in(workload.cache, Cache.DYNAMIC),
        topic=Topic.CACHE,
        refusal=OTHERS,
        reason="a {workload.cache} cache of {model.family}",
    ),
    Rule(
        when=_NO_DECODER,
        require=is_in(layout.tensor_parallel, 1),
        topic=Topic.PLAN,
        refusal=unmodelled(
            "tensor_parallel {layout.tensor_parallel} of {model.family} in serving", "1"
        ),
        reason="tensor_parallel {layout.tensor_parallel} of {model.family} in serving",
    ),
    Rule(
        when=all_of(_NO_DECODER, is_false(model.has_encoder)),
        require=is_in(workload.output_tokens, 0),
        topic=Topic.LABELS,
        refusal=invalid(
            lambda case: (
                f"output_tokens is {get_serving(case).output_tokens}, but {describe_reader(case)} "
                "generates nothing; say 0"
            )
        ),
        reason=lambda case: f"{describe_reader(case)} generates nothing",
        source="transformers 5.23, GenerationMixin",
    ),
    *(
        Rule(
            require=is_absent(Field(f"workload.{name}")),
            topic=Topic.WORDS,
            refusal=unmodelled(f"{name} of {{model.family}}", f"requests without {name}"),
            source=_GENERATE,
        )
        for name in (
            *("engine_version", "max_model_len", "max_num_batched_tokens", "max_num_sequences"),
            *("gpu_memory_fraction", "kv_pool_bytes", "kv_pool_blocks", "kv_pool_tokens"),
        )
    ),
    Rule(
        require=is_in(workload.num_beams, 1),
        topic=Topic.BEAMS,
        refusal=unmodelled("beam search of {model.family}", "1"),
    ),
    Rule(
        when=is_above(model.limited_positions, 0),
        require=is_at_most(workload.prompt_tokens, model.limited_positions),
        topic=Topic.SEQUENCE,
        refusal=invalid(
            "{workload.prompt_tokens} tokens, but {model.family} has learned positions for "
            "{model.limited_positions}: say {model.limited_positions} or fewer"
        ),
        source="the model's position table (max_position_embeddings)",
    ),
    Rule(
        when=is_true(model.has_encoder),
        require=satisfies(fits_served_decoder, workload.prompt_tokens, workload.output_tokens),
        field=workload.output_tokens.path,
        topic=Topic.DECODER,
        refusal=invalid(
            lambda case: (
                f"{count_served_tokens(case)} decoder tokens, but {case.model.family} has "
                f"learned positions for {case.model.learned_positions}; give prompt_tokens and "
                "output_tokens that are no more together"
            )
        ),
        source="the model's position table (max_position_embeddings)",
    ),
)
