"""Rules of LMDeploy and Text Generation Inference."""

from typing import Any

from service.estimator.rules.grammar.conditions import Field, is_absent, is_in, is_not_in
from service.estimator.rules.grammar.fields import layout, model, workload
from service.estimator.rules.grammar.rule import Rule, RuleTable, Topic, unmodelled
from service.estimator.rules.tables.serving.engine_ranks import make_split_rules
from service.estimator.rules.tables.serving.engines import ENGINE_TOPICS, ENGINES, REPLICAS
from service.estimator.rules.tables.serving.host_weights import KEEPS_NO_WEIGHTS
from service.estimator.values.dtypes import DType
from service.estimator.values.workload import Quantization

_LMDEPLOY = "LMDeploy 0.16.0, lmdeploy/turbomind/supported_models.py"
_TGI = "TGI 3.3.5, server/text_generation_server/models/__init__.py"


def _refuse_field(name: str, field: Field[Any], source: str) -> Rule:
    return Rule(
        require=is_absent(field),
        topic=Topic.WORDS,
        refusal=unmodelled(f"{name} of {{workload.engine}}", f"requests without {name}"),
        reason=f"{name} of {{workload.engine}}",
        source=source,
    )


def _make_rules(
    engine: str, families: tuple[str, ...], formats: tuple[Quantization, ...], source: str
) -> tuple[Rule, ...]:
    """Return the rules of an engine over tensor ranks."""
    return (
        *ENGINES,
        Rule(
            require=is_in(model.family, *families),
            field="workload.engine",
            topic=Topic.MODEL,
            refusal=unmodelled(f"{engine} with {{model.family}}", *families),
            reason=f"{engine} with {{model.family}}",
            source=source,
        ),
        *make_split_rules(source),
        Rule(
            require=is_in(workload.quantization, Quantization.NONE, *formats),
            topic=Topic.MODEL,
            refusal=unmodelled(
                f"quantization {{workload.quantization}} of {engine}",
                *(str(word) for word in (Quantization.NONE, *formats)),
            ),
            reason=f"quantization {{workload.quantization}} of {engine}",
            source=source,
        ),
        *KEEPS_NO_WEIGHTS,
        *(
            Rule(
                require=is_in(degree, 1),
                topic=Topic.WORDS,
                refusal=unmodelled(f"{name} of {engine}", "tensor_parallel"),
                reason=f"{name} {{{degree.path}}} of {engine}",
                source=source,
            )
            for name, degree in (
                ("pipeline_parallel", layout.pipeline_parallel),
                ("expert_parallel", layout.expert_parallel),
            )
        ),
        _refuse_field("speculative", workload.speculative, source),
        _refuse_field("max_num_sequences", workload.max_num_sequences, source),
    )


SERVE_LMDEPLOY = RuleTable(
    name="serve_lmdeploy",
    rules=(
        *_make_rules(
            "LMDeploy",
            (
                *("llama", "mistral", "mixtral", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe"),
                *("deepseek_v2", "deepseek_v3", "gpt_oss"),
            ),
            (Quantization.AWQ_INT4, Quantization.GPTQ_INT4, Quantization.FP8, Quantization.MXFP4),
            _LMDEPLOY,
        ),
        Rule(
            require=is_not_in(workload.kv_cache_dtype, DType.FP8),
            topic=Topic.WORDS,
            refusal=unmodelled(
                "kv_cache_dtype fp8 of LMDeploy, whose quant_policy keeps integers",
                "the kv_cache_dtype of the weights",
            ),
            reason="kv_cache_dtype fp8 of LMDeploy",
            source="LMDeploy 0.16.0, lmdeploy/messages.py, quant_policy",
        ),
    ),
    topics=(*ENGINE_TOPICS, Topic.WORDS, Topic.MODEL),
    sharding_options=REPLICAS,
)
SERVE_TGI = RuleTable(
    name="serve_tgi",
    rules=_make_rules(
        "TGI",
        (
            *("llama", "mistral", "mixtral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3_text"),
            *("phi", "phi3", "phimoe", "cohere", "cohere2", "granite", "olmo", "olmo2"),
            *("gpt2", "gptj", "gpt_neox", "gpt_bigcode", "falcon", "starcoder2", "stablelm"),
            *("deepseek_v2", "deepseek_v3"),
        ),
        (
            *(Quantization.INT8, Quantization.NF4, Quantization.GPTQ_INT4),
            *(Quantization.AWQ_INT4, Quantization.FP8),
        ),
        _TGI,
    ),
    topics=(*ENGINE_TOPICS, Topic.WORDS, Topic.MODEL),
    sharding_options=REPLICAS,
)
