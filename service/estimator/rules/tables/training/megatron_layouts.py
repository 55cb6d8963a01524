"""Rules of the layouts that Megatron-LM can spread a model over."""

from service.estimator.rules.grammar.conditions import (
    all_of,
    any_of,
    divides,
    divides_or_is_multiple_of,
    is_above,
    is_absent,
    is_at_most,
    is_false,
    is_in,
    is_multiple_of,
    is_same,
    is_true,
    satisfies,
)
from service.estimator.rules.grammar.fields import layout, model, workload
from service.estimator.rules.grammar.rule import OTHERS, Rule, Topic, invalid, unmodelled
from service.estimator.rules.predicates.pipelines import is_split_as_torchtitan
from service.estimator.rules.tables.training.contexts import RING_ALONE
from service.estimator.rules.tables.training.pipelines import SPLIT_STAGES
from service.estimator.rules.tables.transformers_layouts import (
    REFUSES_HEADS,
    REFUSES_INNER,
    REFUSES_SHARED_KV_HEADS,
)
from service.estimator.values.layout import Sharding
from service.estimator.values.pipeline import PipelineSchedule

_CORE = "Megatron-LM, megatron/core"

_CONFIG = f"{_CORE}/transformer/transformer_config.py"

_ARGUMENTS = "Megatron-LM, megatron/training/arguments.py"


_SPREAD = invalid(
    "sequence_length {workload.sequence_length} does not divide over {layout.tensor_parallel} "
    "tensor-parallel ranks"
)

MEGATRON_LAYOUTS = (
    Rule(
        require=is_in(layout.sharding, Sharding.MEGATRON, Sharding.DDP),
        topic=Topic.SHARDING,
        refusal=OTHERS,
        reason="Megatron shards its states itself, not through {layout.sharding}",
        source="Megatron-LM, --use-distributed-optimizer",
    ),
    Rule(
        require=is_at_most(layout.zero_stage, 1),
        topic=Topic.SHARDING,
        refusal=unmodelled(
            "zero_stage {layout.zero_stage} in framework megatron (Megatron-FSDP)",
            *("0", "1: the distributed optimizer"),
        ),
        reason="Megatron's distributed optimizer shards states alone, which is stage 1",
        source=f"{_CORE}/optimizer/distrib_optimizer.py; Megatron-FSDP has no term",
    ),
    Rule(
        require=is_false(layout.shard_embeddings_separately),
        topic=Topic.SEPARATE,
        refusal=unmodelled("shard_embeddings_separately in framework megatron", "false"),
        reason="units of their own are FSDP2's",
        source="torch 2.13 fully_shard",
    ),
    Rule(
        require=any_of(
            is_absent(layout.shard_size),
            is_same(layout.shard_size, (layout.data_parallel, layout.context_parallel)),
        ),
        topic=Topic.SHARDING,
        refusal=unmodelled(
            "shard_size {layout.shard_size} in framework megatron", "all data-parallel ranks"
        ),
        reason="states are sharded over all data-parallel ranks",
        source="Megatron-LM, --num-distributed-optimizer-instances has no term",
    ),
    Rule(
        require=divides(layout.tensor_parallel, model.num_attention_heads),
        topic=Topic.DIVISIBLE,
        refusal=REFUSES_HEADS,
        reason="tensor_parallel {layout.tensor_parallel} does not divide "
        "{model.num_attention_heads} attention heads",
        source=f"{_CONFIG}: num_attention_heads must be a multiple of tensor_model_parallel_size",
    ),
    Rule(
        require=divides(layout.tensor_parallel, model.intermediate_size),
        topic=Topic.DIVISIBLE,
        refusal=REFUSES_INNER,
        reason="tensor_parallel {layout.tensor_parallel} does not divide the MLP's "
        "{model.intermediate_size} inner features",
        source=f"{_CORE}/tensor_parallel/layers.py, ensure_divisibility",
    ),
    Rule(
        require=divides_or_is_multiple_of(layout.tensor_parallel, model.num_key_value_heads),
        topic=Topic.DIVISIBLE,
        refusal=REFUSES_SHARED_KV_HEADS,
        reason="tensor_parallel {layout.tensor_parallel} neither divides "
        "{model.num_key_value_heads} key and value heads nor is a multiple of them",
        source=f"{_CONFIG}: num_query_groups must be a multiple or divisor of "
        "tensor_model_parallel_size",
    ),
    Rule(
        when=is_in(layout.pipeline_parallel, 1),
        require=is_in(layout.virtual_pipeline_stages, 1),
        topic=Topic.STAGES,
        refusal=invalid(
            "virtual_pipeline_stages {layout.virtual_pipeline_stages} interleaves stages, but "
            "pipeline_parallel is 1"
        ),
        reason="virtual_pipeline_stages {layout.virtual_pipeline_stages} interleaves stages, but "
        "pipeline_parallel is 1",
        source=f"{_ARGUMENTS}: pipeline-model-parallel size should be greater than 1 with "
        "interleaved schedule",
    ),
    RING_ALONE,
    *SPLIT_STAGES,
    Rule(
        require=is_in(
            layout.pipeline_schedule,
            *(None, PipelineSchedule.ONE_F_ONE_B, PipelineSchedule.INTERLEAVED),
        ),
        topic=Topic.STAGES,
        refusal=OTHERS,
        reason="Megatron-LM runs 1F1B and interleaved 1F1B, not {layout.pipeline_schedule}",
        source=f"{_CORE}/pipeline_parallel/schedules.py, get_forward_backward_func",
    ),
    Rule(
        require=satisfies(lambda case: not is_split_as_torchtitan(case), layout.pipeline_split),
        topic=Topic.STAGES,
        refusal=invalid(
            "{layout.pipeline_split.field} is a word of torchtitan; Megatron-LM's are "
            "pipeline_layers, num_layers_in_first_pipeline_stage and its last, "
            "account_for_embedding_in_pipeline_split and its loss, pipeline_model_parallel_layout",
            field="{layout.pipeline_split.field}",
        ),
        reason="the split is torchtitan's",
        source="torchtitan, torchtitan/distributed/pipeline_parallel.py",
    ),
    Rule(
        when=is_above(layout.virtual_pipeline_stages, 1),
        require=is_multiple_of(workload.gradient_accumulation_steps, layout.pipeline_parallel),
        reason="interleaved stages take micro-batches in groups of {layout.pipeline_parallel}, and "
        "{workload.gradient_accumulation_steps} is no multiple",
        source=f"{_CORE}/pipeline_parallel/schedules.py, "
        "forward_backward_pipelining_with_interleaving",
    ),
    Rule(
        when=is_above(layout.context_parallel, 1),
        require=is_multiple_of(workload.sequence_length, (2, layout.context_parallel)),
        topic=Topic.SLICES,
        refusal=invalid(
            "sequence_length {workload.sequence_length} does not divide by 2 x context_parallel "
            "{layout.context_parallel}: each rank takes two slices, so that causal work is even"
        ),
        reason="sequence_length {workload.sequence_length} is no multiple of 2 x context_parallel "
        "{layout.context_parallel}",
        source=f"{_ARGUMENTS} and megatron/core/utils.py, get_batch_on_this_cp_rank: two slices a "
        "rank",
    ),
    Rule(
        when=is_true(layout.sequence_parallel),
        require=is_multiple_of(
            workload.sequence_length, (layout.context_parallel, layout.tensor_parallel)
        ),
        field=layout.sequence_parallel.path,
        topic=Topic.SLICES,
        refusal=_SPREAD,
        reason="sequence_length {workload.sequence_length} does not divide over "
        "{layout.tensor_parallel} tensor-parallel ranks",
        source=f"{_CORE}/tensor_parallel/mappings.py, reduce_scatter_to_sequence_parallel_region",
    ),
    Rule(
        when=is_true(layout.sequence_parallel),
        require=is_multiple_of(model.hidden_size, layout.tensor_parallel),
        field=layout.sequence_parallel.path,
        topic=Topic.SLICES,
        refusal=_SPREAD,
        reason="hidden_size {model.hidden_size} does not divide over {layout.tensor_parallel} "
        "tensor-parallel ranks",
        source=f"{_CORE}/tensor_parallel/layers.py",
    ),
    Rule(
        when=is_in(model.expert_layers, 0),
        require=is_in(layout.expert_parallel, 1),
        topic=Topic.EXPERTS,
        refusal=invalid(
            "expert_parallel {layout.expert_parallel}, but {model.family} has no experts"
        ),
        reason="expert_parallel {layout.expert_parallel}, but {model.family} has no experts",
        source=f"{_CONFIG}: num_moe_experts must be non None to use expert-parallel",
    ),
    Rule(
        when=is_above(model.expert_layers, 0),
        require=divides(layout.expert_parallel, model.num_experts),
        topic=Topic.EXPERTS,
        refusal=invalid(
            "expert_parallel {layout.expert_parallel} does not divide {model.num_experts} experts"
        ),
        reason="expert_parallel {layout.expert_parallel} does not divide {model.num_experts} "
        "experts",
        source=f"{_CONFIG}: num_moe_experts should be a multiple of expert_model_parallel_size",
    ),
    Rule(
        when=all_of(is_above(model.expert_layers, 0), is_above(layout.tensor_parallel, 1)),
        require=is_true(layout.sequence_parallel),
        topic=Topic.EXPERTS,
        refusal=invalid(
            "experts beside tensor_parallel need sequence_parallel "
            "(megatron/core/transformer/transformer_config.py)"
        ),
        reason="experts beside tensor_parallel need sequence_parallel",
        source=f"{_CONFIG}: tensor parallelism with MoE requires sequence parallelism",
    ),
)
