"""Rules of how a pipeline's layers are spread over its stages."""

from service.estimator.rules.grammar.conditions import (
    is_above,
    is_false,
    is_in,
    is_true,
    satisfies,
)
from service.estimator.rules.grammar.fields import layout, model, workload
from service.estimator.rules.grammar.rule import Rule, Topic, invalid, unmodelled
from service.estimator.rules.predicates.pipelines import (
    can_split,
    explain_split,
    get_split_field,
    has_layers_everywhere,
    is_split_by_others,
    predicts_beside_loss,
)
from service.estimator.values.losses import Loss
from service.estimator.values.pipeline import PipelineSchedule
from service.estimator.values.workload import Checkpointing

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

_SPLIT_BACKWARD = (
    PipelineSchedule.INTERLEAVED_ZERO_BUBBLE,
    PipelineSchedule.ZBV,
    PipelineSchedule.DUAL_PIPE_V,
)
"""Schedules that part backward towards inputs from that towards weights."""
_PIPELINED = is_above(layout.pipeline_parallel, 1)
_SPLITS_BACKWARD = is_in(layout.pipeline_schedule, *_SPLIT_BACKWARD)
_SCHEDULES = "torch 2.13, distributed/pipelining/schedules.py"

TORCHTITAN_PIPELINES = (
    Rule(
        require=is_in(layout.expert_parallel, 1),
        topic=Topic.ONE_STAGE,
        refusal=unmodelled(
            "expert_parallel {layout.expert_parallel} in torchtitan", "1, or framework megatron"
        ),
        reason="expert_parallel {layout.expert_parallel} in torchtitan",
    ),
    Rule(
        when=is_in(layout.pipeline_parallel, 1),
        require=is_in(layout.virtual_pipeline_stages, 1),
        topic=Topic.STAGES,
        refusal=unmodelled(
            "virtual_pipeline_stages {layout.virtual_pipeline_stages} in torchtitan on one stage",
            "pipeline_parallel 2 or more",
        ),
        reason="virtual_pipeline_stages {layout.virtual_pipeline_stages} on one stage",
    ),
    Rule(
        require=satisfies(lambda case: not is_split_by_others(case), layout.pipeline_split),
        topic=Topic.STAGES,
        refusal=invalid(
            "{layout.pipeline_split.field} is no word of torchtitan, which has pipeline_layers "
            "(module_fqns_per_model_part), pipeline_parallel_layers_per_stage and its first and "
            "last stage's less layers",
            field="{layout.pipeline_split.field}",
        ),
        reason="the split is another framework's",
        source="torchtitan, torchtitan/distributed/pipeline_parallel.py",
    ),
    *SPLIT_STAGES[:1],
    Rule(
        when=_PIPELINED,
        require=satisfies(has_layers_everywhere, *PIPELINE),
        topic=Topic.STAGES,
        refusal=unmodelled("a chunk without layers in torchtitan", "a layer or more on each chunk"),
        reason="a chunk without layers in torchtitan",
    ),
    Rule(
        when=_PIPELINED,
        require=is_above((layout.data_parallel, layout.context_parallel), 1),
        topic=Topic.STAGES,
        refusal=unmodelled(
            "pipeline_parallel {layout.pipeline_parallel} in torchtitan on one data rank",
            "data_parallel 2 or more beside it",
            field=layout.pipeline_parallel.path,
        ),
        reason="a pipeline of torchtitan on one data-parallel rank, which shards nothing",
    ),
    Rule(
        when=_PIPELINED,
        require=is_in(workload.loss, Loss.FULL_LOGITS),
        topic=Topic.STAGES,
        refusal=unmodelled(
            "loss {workload.loss} on the last stage of torchtitan's pipeline", "full_logits"
        ),
        reason="loss {workload.loss} on the last stage of torchtitan's pipeline",
    ),
    Rule(
        when=is_true(model.tied),
        require=is_in(layout.pipeline_parallel, 1),
        topic=Topic.STAGES,
        refusal=invalid(
            "pipeline_parallel {layout.pipeline_parallel} of a head that is the embedding's table: "
            "torchtitan has no pipeline of tied weights",
        ),
        reason="torchtitan has no pipeline of tied weights",
        source="torchtitan, torchtitan/models/common/decoder.py: Weight tying is not supported "
        "with Pipeline Parallel",
    ),
    Rule(
        when=_SPLITS_BACKWARD,
        require=is_in(workload.activation_checkpointing, Checkpointing.NONE),
        topic=Topic.STAGES,
        refusal=unmodelled(
            "checkpoints beside pipeline_schedule {layout.pipeline_schedule}, whose graph is kept "
            "for the gradients of weights",
            "activation_checkpointing none",
        ),
        reason="checkpoints beside pipeline_schedule {layout.pipeline_schedule}",
        source=f"{_SCHEDULES}; _backward.py, stage_backward_input",
    ),
    Rule(
        when=_SPLITS_BACKWARD,
        require=is_false(workload.compile),
        field=workload.compile.path,
        topic=Topic.STAGES,
        refusal=invalid("pipeline_schedule {layout.pipeline_schedule} runs no compiled stages"),
        reason="pipeline_schedule {layout.pipeline_schedule} does not run compiled stages",
        source=f"{_SCHEDULES}, _check_torch_compile_compatibility",
    ),
)
"""Pipelines of torchtitan, beside FSDP2."""
