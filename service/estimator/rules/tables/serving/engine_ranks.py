"""Rules of the ranks and formats of serving engines in Python."""

from service.estimator.rules.grammar.conditions import (
    all_of,
    any_of,
    divides,
    divides_or_is_multiple_of,
    is_above,
    is_absent,
    is_at_most,
    is_given,
    is_in,
    is_not_in,
    is_same,
    is_true,
    satisfies,
)
from service.estimator.rules.grammar.fields import layout, model, workload
from service.estimator.rules.grammar.rule import OTHERS, Refusal, Rule, Topic, invalid, unmodelled
from service.estimator.rules.predicates.models import finds_experts, get_serving
from service.estimator.values.dtypes import DType
from service.estimator.values.pipeline import EVEN
from service.estimator.values.workload import Quantization

HUB_FORMATS = (
    *(Quantization.NONE, Quantization.INT8, Quantization.NF4, Quantization.GPTQ_INT4),
    *(Quantization.AWQ_INT4, Quantization.FP8, Quantization.MXFP4, Quantization.NVFP4),
)
"""Formats of weights that engines in Python load; the others are those of GGUF files."""


def make_split_rules(engine: str) -> tuple[Rule, ...]:
    """Return the rules of how an engine splits layers.

    ``engine`` is where it says so.
    """
    return (
        *_make_degree_rules(engine),
        make_hub_formats(f"{engine}: formats of the Hub"),
        PACKS_EXPERTS,
        Rule(
            require=any_of(
                is_same(workload.kv_cache_dtype, workload.weight_dtype),
                is_in(workload.kv_cache_dtype, DType.FP8),
            ),
            topic=Topic.KV_CACHE,
            refusal=Refusal(
                text="kv_cache_dtype '{workload.kv_cache_dtype}'",
                modelled=lambda case: list(
                    dict.fromkeys((str(get_serving(case).weight_dtype), "fp8"))
                ),
            ),
            reason="kv_cache_dtype {workload.kv_cache_dtype} beside {workload.weight_dtype} "
            "weights",
        ),
        *_make_expert_rules(engine),
    )


def _make_degree_rules(engine: str) -> tuple[Rule, ...]:
    """Return the rules of tensor and pipeline parallelism."""
    return (
        Rule(
            when=is_true(model.attends),
            require=divides(layout.tensor_parallel, model.num_attention_heads),
            reason="tensor_parallel {layout.tensor_parallel} does not divide "
            "{model.num_attention_heads} attention heads",
            source=f"{engine}: total number of attention heads must be divisible by tensor "
            "parallel size",
        ),
        Rule(
            require=divides(layout.tensor_parallel, model.intermediate_size),
            reason="tensor_parallel {layout.tensor_parallel} does not divide the MLP's "
            "{model.intermediate_size} inner features",
            source=f"{engine}: column-parallel layers divide",
        ),
        Rule(
            when=is_true(model.attends),
            require=divides_or_is_multiple_of(layout.tensor_parallel, model.num_key_value_heads),
            reason="tensor_parallel {layout.tensor_parallel} neither divides "
            "{model.num_key_value_heads} key and value heads nor is a multiple of them",
            source=f"{engine}: fewer key and value heads than ranks are replicated",
        ),
        Rule(
            require=is_at_most(layout.pipeline_parallel, model.num_hidden_layers),
            reason="pipeline_parallel {layout.pipeline_parallel}, but the model has "
            "{model.num_hidden_layers} layers",
            source=f"{engine}: at least one layer on each stage",
        ),
    )


def _make_expert_rules(engine: str) -> tuple[Rule, ...]:
    """Return the rules of expert parallelism."""
    return (
        Rule(
            when=is_in(model.num_experts, 0),
            require=is_in(layout.expert_parallel, 1),
            reason="expert_parallel {layout.expert_parallel}, but {model.family} has no experts",
            source=f"{engine}: expert parallelism is of models with experts",
        ),
        Rule(
            when=is_above(model.num_experts, 0),
            require=divides(layout.expert_parallel, model.num_experts),
            reason="expert_parallel {layout.expert_parallel} does not divide {model.num_experts} "
            "experts",
            source=f"{engine}: equal shares of experts",
        ),
    )


def make_hub_formats(source: str) -> Rule:
    """Return the rule that weights are in a format of the Hub."""
    return Rule(
        require=is_in(workload.quantization, *HUB_FORMATS),
        topic=Topic.FORMATS,
        refusal=OTHERS,
        reason="{workload.quantization} is a mixture of GGUF files",
        source=source,
    )


PACKS_EXPERTS = Rule(
    when=is_in(model.num_experts, 0),
    require=is_not_in(workload.quantization, Quantization.MXFP4),
    reason="mxfp4 is for experts, and {model.family} has none",
    source="transformers 5.23, quantizers/quantizer_mxfp4.py",
)

_NO_EXPERTS = unmodelled(
    "quantization mxfp4 of a model without experts, which are what it is for",
    *(str(word) for word in HUB_FORMATS if word not in {Quantization.NONE, Quantization.MXFP4}),
)
FINDS_EXPERTS = Rule(
    when=is_in(workload.quantization, Quantization.MXFP4),
    require=satisfies(finds_experts, workload.quantization),
    topic=Topic.WEIGHTS,
    refusal=_NO_EXPERTS,
    source="transformers 5.23, quantizers/quantizer_mxfp4.py",
)
FINDS_EXPERTS_BESIDE_OWN = Rule(
    when=all_of(is_true(model.quantized), is_in(workload.quantization, Quantization.MXFP4)),
    require=satisfies(finds_experts, workload.quantization),
    topic=Topic.WEIGHTS,
    refusal=_NO_EXPERTS,
    source="transformers 5.23, quantizers/quantizer_mxfp4.py",
)
"""What engines are asked first of these formats; of other models where they are loaded."""
DRAFTS_WITHOUT_STAGES = Rule(
    when=is_given(workload.speculative),
    require=is_in(layout.pipeline_parallel, 1),
    reason="a draft model beside a pipeline",
)

OWN_STAGES = (
    Rule(
        require=is_in(layout.pipeline_split, EVEN),
        topic=Topic.ONE_STAGE,
        refusal=unmodelled(
            "{layout.pipeline_split.field} in serving: engines split layers themselves",
            "left out",
            field="{layout.pipeline_split.field}",
        ),
        reason="engines split layers themselves",
    ),
    Rule(
        require=is_absent(layout.pipeline_schedule),
        topic=Topic.ONE_STAGE,
        refusal=invalid(
            "pipeline_schedule {layout.pipeline_schedule} orders backward passes, and serving has "
            "none: leave it out"
        ),
        reason="serving has no backward passes",
        source="arXiv:2104.04473, section 2.2",
    ),
)
"""Whoever serves splits the layers itself."""
