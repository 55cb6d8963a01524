"""Rules of how a pipeline's layers are spread over its stages."""

from service.estimator.rules.grammar.conditions import is_above, satisfies
from service.estimator.rules.grammar.fields import layout
from service.estimator.rules.grammar.rule import Rule, Topic, invalid, unmodelled
from service.estimator.rules.predicates.pipelines import (
    can_split,
    explain_split,
    get_split_field,
    predicts_beside_loss,
)

PIPELINE = (
    layout.pipeline_parallel,
    layout.virtual_pipeline_stages,
    layout.pipeline_split,
    layout.pipeline_schedule,
)
"""Fields that decide which layers are on which stage."""

SPLIT_STAGES = (
    Rule(
        when=is_above(layout.pipeline_parallel, 1),
        require=satisfies(can_split, *PIPELINE),
        topic=Topic.STAGES,
        refusal=invalid(explain_split, field=get_split_field),
        reason=explain_split,
        source="Megatron-LM, megatron/core/transformer/transformer_config.py and "
        "transformer_block.py, get_num_layers_to_build; torchtitan, "
        "torchtitan/distributed/pipeline_parallel.py",
    ),
    Rule(
        when=is_above(layout.pipeline_parallel, 1),
        require=satisfies(predicts_beside_loss, *PIPELINE),
        field="layout.pipeline_model_parallel_layout",
        topic=Topic.STAGES,
        refusal=unmodelled(
            "multi-token prediction layers on a stage without the loss", "mL: beside the loss"
        ),
        reason="multi-token prediction layers on a stage without the loss",
        source="Megatron-LM, pipeline_parallel_layer_layout.py: mtp_standalone has no term",
    ),
)
"""A layout spreads all layers, each once."""
