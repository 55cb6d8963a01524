"""Rules of framework ``transformers``: its Trainer under DDP, DeepSpeed or PyTorch's FSDP."""

from service.estimator.rules.grammar.conditions import (
    all_of,
    any_of,
    is_above,
    is_false,
    is_given,
    is_in,
    is_not_in,
    is_true,
    satisfies,
)
from service.estimator.rules.grammar.fields import layout, model, offload, precision, workload
from service.estimator.rules.grammar.rule import (
    OTHERS,
    Rule,
    RuleTable,
    ShardingOption,
    Topic,
    invalid,
    unmodelled,
)
from service.estimator.rules.predicates.models import is_text_decoder
from service.estimator.rules.tables.foak import FOAK, UNTRAINED_NORMS
from service.estimator.rules.tables.lora_kernels import LORA_KERNELS
from service.estimator.rules.tables.megatron_options import make_options_rule
from service.estimator.rules.tables.own_code import IMAGES, make_flash_rule
from service.estimator.rules.tables.recorded import RECORDED_TRAINING
from service.estimator.rules.tables.training.adapters import ADAPTERS
from service.estimator.rules.tables.training.compiled import COMPILED
from service.estimator.rules.tables.training.contexts import SHARED_SEQUENCES
from service.estimator.rules.tables.training.evaluations import EVALUATIONS
from service.estimator.rules.tables.training.heads import HEADS, LANGUAGE_MODEL
from service.estimator.rules.tables.training.lengths import TRAINING_LENGTHS
from service.estimator.rules.tables.training.packing import PACKING
from service.estimator.rules.tables.training.precision import SHARED_WEIGHTS, STEP_PRECISION
from service.estimator.rules.tables.training.step import TRAINING_STEP
from service.estimator.rules.tables.training.weights import (
    BASE_WEIGHTS,
    FROZEN_MODULES,
    PACKED_WEIGHTS,
)
from service.estimator.rules.tables.transformers_layouts import make_layout_rules
from service.estimator.values.layout import Sharding
from service.estimator.values.losses import Loss
from service.estimator.values.workload import Checkpointing, Framework, Method, OffloadTarget

_FLAT = is_in(layout.sharding, Sharding.FSDP1)

_REENTRANT = is_true(workload.reentrant_checkpointing)

_TORCH = "torch 2.13 distributed/fsdp"

_WORDS = (
    Rule(
        require=is_in(workload.framework, Framework.TRANSFORMERS),
        topic=Topic.RUNNER,
        refusal=OTHERS,
    ),
    Rule(
        require=is_in(workload.method, Method.FULL, Method.LORA, Method.QLORA),
        topic=Topic.RUNNER,
        refusal=OTHERS,
    ),
)

_RULES = (
    Rule(
        require=is_in(
            layout.sharding, Sharding.DDP, Sharding.DEEPSPEED, Sharding.FSDP1, Sharding.FSDP2
        ),
        reason="transformers trains under DDP, DeepSpeed or PyTorch's FSDP, not {layout.sharding}",
        source="transformers 5.23 training_args.py: deepspeed, fsdp",
    ),
    Rule(
        require=is_false(layout.sequence_parallel),
        topic=Topic.NORMS,
        refusal=unmodelled(
            "sequence_parallel of framework transformers, whose plans replicate the norms",
            *("false", "framework megatron"),
        ),
        reason="transformers' plans replicate the norms",
        source="transformers 5.23, base_model_tp_plan",
    ),
    Rule(
        when=is_above(layout.tensor_parallel, 1),
        require=is_in(workload.method, Method.FULL),
        topic=Topic.BESIDE_TENSORS,
        refusal=unmodelled(
            "adapters on layers that ranks share", "method full", field=layout.tensor_parallel.path
        ),
        reason="adapters on layers that ranks share",
    ),
    Rule(
        when=all_of(is_above(layout.tensor_parallel, 1), is_above(layout.data_parallel, 1)),
        require=is_in(layout.sharding, Sharding.FSDP2),
        topic=Topic.BESIDE_TENSORS,
        refusal=unmodelled(
            "sharding '{layout.sharding}' beside tensor_parallel",
            *("fsdp2", "megatron with framework megatron"),
        ),
        reason="beside tensor_parallel states are sharded on a two-dimensional mesh, which is "
        "FSDP2's",
        source="accelerate 1.15 parallelism_config.py: dp_shard_size with tp_size",
    ),
    Rule(
        require=any_of(
            is_not_in(workload.activation_checkpointing, Checkpointing.SELECTIVE),
            is_given(workload.selective_every),
        ),
        topic=Topic.WHOLE_LAYERS,
        refusal=unmodelled(
            "selective checkpointing without a number, which transformers has not: it recomputes "
            "whole layers",
            *("none", "full", '{"selective": n} for every n-th layer'),
        ),
        reason="transformers recomputes whole layers: say every how many",
        source="transformers 5.23 modeling_layers.py, GradientCheckpointingLayer",
    ),
    Rule(
        when=is_above(layout.tensor_parallel, 1),
        require=is_in(workload.loss, Loss.FULL_LOGITS),
        topic=Topic.SPLIT_LOSS,
        refusal=unmodelled("loss {workload.loss} on tensor-parallel ranks", "full_logits"),
        reason="loss {workload.loss} on tensor-parallel ranks",
    ),
    Rule(
        when=all_of(is_false(model.decoder), LANGUAGE_MODEL),
        require=is_in(workload.loss, Loss.FULL_LOGITS),
        topic=Topic.LABELS,
        refusal=unmodelled("loss {workload.loss} of an encoder", "full_logits"),
        reason="loss {workload.loss} of an encoder",
    ),
    Rule(
        when=_FLAT,
        require=any_of(is_in(workload.frozen, ()), UNTRAINED_NORMS),
        topic=Topic.FLAT,
        refusal=unmodelled(
            "frozen modules in flat parameters with trained ones, whose gradients FSDP1 makes all "
            "the same",
            *("sharding fsdp2", "adapters, units of their own"),
        ),
        source=f"{_TORCH}/_flat_param.py",
    ),
    Rule(
        when=_FLAT,
        require=is_in(offload.parameters, OffloadTarget.NONE),
        topic=Topic.FLAT,
        refusal=unmodelled(
            "offload of flat parameters, unit by unit", "sharding fsdp2 or deepspeed"
        ),
        reason="offload of flat parameters, unit by unit",
    ),
    Rule(
        when=_FLAT,
        require=is_false(workload.optimizer_in_backward),
        topic=Topic.FLAT,
        refusal=unmodelled(
            "optimizer_in_backward with flat parameters, whose shard is one tensor",
            "sharding fsdp2",
        ),
        reason="optimizer_in_backward with flat parameters, whose shard is one tensor",
    ),
    Rule(
        when=is_not_in(workload.activation_checkpointing, Checkpointing.FULL),
        require=is_false(workload.reentrant_checkpointing),
        topic=Topic.REENTRANT,
        refusal=invalid(
            "reentrant_checkpointing says how all blocks are recomputed, and "
            "activation_checkpointing is {workload.activation_checkpointing}"
        ),
        reason="reentrant_checkpointing says how all blocks are recomputed, and "
        "activation_checkpointing is {workload.activation_checkpointing}",
        source="torch 2.13 utils/checkpoint.py, CheckpointFunction",
    ),
    Rule(
        when=_REENTRANT,
        require=satisfies(is_text_decoder),
        field=workload.reentrant_checkpointing.path,
        topic=Topic.REENTRANT,
        refusal=unmodelled("reentrant checkpoints of {model.family}", "decoders of text"),
    ),
    Rule(
        when=_REENTRANT,
        require=is_in(workload.frozen, (), ("norm",)),
        field=workload.reentrant_checkpointing.path,
        topic=Topic.REENTRANT,
        refusal=unmodelled(
            "reentrant checkpoints beside frozen modules",
            *("frozen []", 'frozen ["norm"]', "adapters"),
        ),
    ),
    Rule(
        when=_REENTRANT,
        require=is_in(offload.activations, OffloadTarget.NONE),
        field=workload.reentrant_checkpointing.path,
        topic=Topic.REENTRANT,
        refusal=unmodelled("reentrant checkpoints with inputs on the host", "activations none"),
    ),
    *(
        Rule(
            require=is_false(switch),
            topic=topic,
            refusal=unmodelled(f"{name} true", f"{name} false"),
            reason=f"{name} in framework transformers",
        )
        for name, switch, topic in (
            ("float8", workload.float8, Topic.FLOAT8),
            ("deterministic", workload.deterministic, Topic.SWITCHES),
        )
    ),
    make_options_rule(Topic.SWITCHES),
)

_TOPICS = (
    *(Topic.RUNNER, Topic.SWITCHES, Topic.FLOAT8, Topic.OPTIMIZER, Topic.LABELS),
    *(Topic.SPLIT_LOSS, Topic.LOSS, Topic.WHOLE_LAYERS, Topic.CHECKPOINTING, Topic.UNITS),
    *(Topic.FROZEN, Topic.REENTRANT, Topic.OFFLOADED_ACTIVATIONS, Topic.OFFLOAD),
    *(
        Topic.WEIGHTS,
        Topic.ADAPTERS,
        Topic.SEQUENCE,
        Topic.FRAMES,
        Topic.LENGTHS,
        Topic.HALF,
        Topic.CLAMPS,
    ),
    *(Topic.DECODER, Topic.IMAGES, Topic.SCALARS, Topic.SHARED, Topic.ATTENTION),
    *(Topic.PRECISION, Topic.ONE_STAGE, Topic.SHARDING, Topic.FLAT, Topic.RECURRENT),
    *(Topic.DIVISIBLE, Topic.NORMS, Topic.PLAN, Topic.BESIDE_TENSORS, Topic.SLICES),
)

_PLAN = unmodelled(
    "tensor_parallel of {model.family}",
    *("families whose layers a base_model_tp_plan splits", "framework megatron"),
)

_ALL = (
    *RECORDED_TRAINING,
    *make_layout_rules(_PLAN),
    *_WORDS,
    *SHARED_SEQUENCES,
    *BASE_WEIGHTS,
    *HEADS,
    *TRAINING_STEP,
    *PACKED_WEIGHTS,
    *FROZEN_MODULES,
    *ADAPTERS,
    *LORA_KERNELS,
    *FOAK,
    *TRAINING_LENGTHS,
    *PACKING,
    *IMAGES,
    *SHARED_WEIGHTS,
    *STEP_PRECISION,
    make_flash_rule(precision.compute_dtype),
    *_RULES,
    *COMPILED,
    *EVALUATIONS,
)

TRAIN_TRANSFORMERS = RuleTable(
    name="train_transformers",
    rules=_ALL,
    topics=_TOPICS,
    sharding_options=(
        ShardingOption(
            sharding=Sharding.DDP,
            zero_stages=(0,),
            source="torch 2.13 nn/parallel/distributed.py: every rank has everything",
        ),
        ShardingOption(
            sharding=Sharding.DEEPSPEED,
            zero_stages=(0, 1, 2, 3),
            source="arXiv:1910.02054, section 5; deepspeed.ai/docs/config-json, "
            "zero_optimization.stage",
        ),
        ShardingOption(
            sharding=Sharding.FSDP2,
            zero_stages=(3,),
            source=f"{_TORCH}/_fully_shard: parameters, gradients and states",
        ),
        ShardingOption(
            sharding=Sharding.FSDP1,
            zero_stages=(3,),
            source=f"{_TORCH}/fully_sharded_data_parallel.py, ShardingStrategy.FULL_SHARD; "
            "accelerate 1.15 utils/dataclasses.py, FullyShardedDataParallelPlugin with "
            "fsdp_version 1",
        ),
    ),
)

STEP_BY_OPERATION = RuleTable(
    name="train_transformers",
    rules=_ALL,
    topics=tuple(topic for topic in _TOPICS if topic is not Topic.WHOLE_LAYERS),
)
"""What a step must keep to where a framework can recompute single operations of a block."""
