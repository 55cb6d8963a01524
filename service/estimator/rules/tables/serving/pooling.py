"""Rules of engines for models that generate nothing: embeddings, rerankers, rewards."""

from service.estimator.rules.grammar.conditions import (
    Field,
    all_of,
    any_of,
    is_absent,
    is_false,
    is_in,
    is_true,
    satisfies,
)
from service.estimator.rules.grammar.facts import Case
from service.estimator.rules.grammar.fields import layout, model, workload
from service.estimator.rules.grammar.rule import Rule, Topic, invalid, unmodelled
from service.estimator.rules.predicates.models import (
    describe_reader,
    get_serving,
    has_engine_encoder,
    has_engine_speech,
    has_pooled_head,
)
from service.estimator.values.workload import Engine, Quantization

_SOURCE = (
    "vLLM 0.33.0, v1/worker/gpu/pool/pooling_runner.py; SGLang 0.5.23, srt/model_executor: "
    "is_generation"
)
_POOLED_BY_ENGINE = all_of(
    is_true(model.pooled), is_in(workload.engine, Engine.VLLM, Engine.SGLANG)
)
_ENCODED = satisfies(has_engine_encoder, model.family, model.head, workload.engine)
_SPEECH = satisfies(has_engine_speech, model.family, workload.engine)
_READS_ALONE = all_of(is_false(model.decoder), is_false(model.has_encoder))
_IS_ENCODER = all_of(is_false(model.decoder), is_false(model.pooled))


def _get_kind(case: Case) -> str:
    if case.model.has_encoder:
        return "a model with an encoder"
    return f"with head {case.model.head}" if case.model.head else "which generates no tokens"


def _get_place(case: Case) -> str:
    return f"a model of head {case.model.head}" if case.model.head else "an encoder without a cache"


POOLING = (
    Rule(
        require=satisfies(has_pooled_head, model.family, model.head, workload.engine),
        topic=Topic.LABELS,
        refusal=unmodelled(
            lambda case: (
                f"{get_serving(case).engine} with {case.model.family} and its head "
                f"{case.model.head or 'of a language model'}"
            ),
            "head none for embeddings, sequence_classification for scores",
            "engine transformers",
            field="workload.engine",
        ),
        reason=lambda case: f"{case.model.family} is {_get_place(case)}",
    ),
    Rule(
        require=any_of(is_true(model.decoder), _POOLED_BY_ENGINE, _ENCODED, _SPEECH),
        topic=Topic.LABELS,
        refusal=unmodelled(
            lambda case: f"{get_serving(case).engine} with {case.model.family}, {_get_kind(case)}",
            *("engine transformers", "decoders of text"),
            "engine vllm or sglang with decoders of head none, sequence_classification, reward",
            "engine vllm with bert, modernbert, roberta and xlm-roberta, sglang with bert and "
            "xlm-roberta, of head none or sequence_classification",
            "engine vllm with whisper",
            field="workload.engine",
        ),
        reason=lambda case: f"{case.model.family} is {_get_place(case)}",
    ),
    Rule(
        when=_READS_ALONE,
        require=is_in(workload.output_tokens, 0),
        topic=Topic.LABELS,
        refusal=invalid(
            lambda case: (
                f"output_tokens is {get_serving(case).output_tokens}, but {describe_reader(case)} "
                "generates nothing; say 0"
            )
        ),
        reason=lambda case: f"{describe_reader(case)} generates nothing",
        source=_SOURCE,
    ),
    Rule(
        when=is_false(model.decoder),
        require=is_in(layout.pipeline_parallel, 1),
        topic=Topic.LABELS,
        refusal=unmodelled("pipeline_parallel of {model.family}, which is no decoder", "1"),
        reason="pipeline_parallel {layout.pipeline_parallel} of what is no decoder",
        source=_SOURCE,
    ),
    Rule(
        when=_IS_ENCODER,
        require=is_in(layout.tensor_parallel, 1),
        topic=Topic.LABELS,
        refusal=unmodelled(
            "tensor_parallel of {model.family} in serving",
            "1",
            "data_parallel: each rank a server of its own",
        ),
        reason="tensor_parallel {layout.tensor_parallel} of an encoder",
        source=_SOURCE,
    ),
    Rule(
        when=_IS_ENCODER,
        require=is_in(workload.quantization, Quantization.NONE),
        topic=Topic.LABELS,
        refusal=unmodelled(
            "quantization {workload.quantization} of {model.family} on {workload.engine}",
            "weights in 16 or 32 bits, without quantization",
        ),
        reason="quantization {workload.quantization} of an encoder",
        source=_SOURCE,
    ),
    Rule(
        when=is_true(model.has_encoder),
        require=is_absent(workload.speculative),
        topic=Topic.LABELS,
        refusal=unmodelled(
            "speculative decoding of {model.family} on {workload.engine}",
            "requests without speculative",
        ),
        reason="speculative decoding of {model.family}",
        source=_SOURCE,
    ),
    *(
        Rule(
            when=_IS_ENCODER,
            require=is_absent(Field(f"workload.{name}")),
            topic=Topic.LABELS,
            refusal=invalid(f"an encoder keeps no keys and values: drop {name}"),
            reason="an encoder has no pool",
            source=_SOURCE,
        )
        for name in ("kv_pool_bytes", "kv_pool_blocks", "kv_pool_tokens")
    ),
    Rule(
        when=_READS_ALONE,
        require=is_absent(workload.speculative),
        topic=Topic.LABELS,
        refusal=invalid("nothing is generated, so that nothing can be guessed: drop speculative"),
        reason="nothing is generated that could be guessed",
        source=_SOURCE,
    ),
)
"""What engines are asked about models whose hidden states are pooled."""
