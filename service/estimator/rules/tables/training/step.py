"""Rules of what a step of transformers' modules computes."""

from service.estimator.memory.optimizers.table import MODELLED
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
)
from service.estimator.rules.grammar.fields import layout, lora, model, precision, workload
from service.estimator.rules.grammar.rule import Rule, Topic, invalid, unmodelled
from service.estimator.rules.predicates.models import get_training
from service.estimator.rules.tables.own_code import KERNELS
from service.estimator.rules.tables.training.compressing import COMPRESSIONS
from service.estimator.rules.tables.training.losses import LOSSES
from service.estimator.rules.tables.training.offload import OFFLOADS
from service.estimator.rules.tables.training.policies import POLICIES
from service.estimator.values.dtypes import DType
from service.estimator.values.layout import Sharding
from service.estimator.values.workload import Checkpointing, Method

_WHOLE = tuple(name for name, optimizer in MODELLED.items() if optimizer.whole_tensors)

_SINGLE = tuple(
    name for name, optimizer in MODELLED.items() if optimizer.temporaries_of_one is not None
)

_RANKS = (layout.data_parallel, layout.context_parallel)

_KEEP_IN_FP32 = "transformers 5.23, _keep_in_fp32_modules"

_HALF = unmodelled(
    "fp16 weights of {model.family}, whose {model.tree.keeps_fp32} transformers keeps in fp32",
    *("bf16", "fp32"),
    field="workload.precision",
)

_HALF_REASON = (
    "fp16 weights of {model.family}, of which transformers keeps some layers in fp32 then"
)

_MATRICES = "torch.optim.Muon 2.13, galore-torch 1.0, apollo-torch 1.0.3: step on 2-D parameters"

_IN_BACKWARD = is_true(workload.optimizer_in_backward)

TRAINING_STEP = (
    Rule(
        when=is_in(model.family, "mamba", "mamba2", "falcon_mamba", "falcon_h1", "nemotron_h"),
        require=any_of(is_absent(workload.lora), is_given(lora.targets)),
        reason="PEFT adapts no out_proj of {model.family}, which all-linear names as well",
        source="peft 0.21 tuners/tuners_utils.py, _check_lora_target_modules_mamba",
    ),
    Rule(
        when=is_in(workload.optimizer, *_WHOLE),
        require=any_of(is_in(layout.zero_stage, 0), is_at_most(_RANKS, 1)),
        field=workload.optimizer.path,
        reason="{workload.optimizer} works on whole matrices, which no rank has when states are "
        "sharded",
        source=_MATRICES,
    ),
    Rule(
        require=is_in(workload.optimizer, *MODELLED),
        topic=Topic.OPTIMIZER,
        refusal=unmodelled(lambda case: f"optimizer {get_training(case).optimizer!r}", *MODELLED),
    ),
    Rule(
        when=is_in(workload.optimizer, *_WHOLE),
        require=any_of(is_in(layout.zero_stage, 0), is_at_most(layout.shards, 1)),
        field=workload.optimizer.path,
        topic=Topic.OPTIMIZER,
        refusal=unmodelled(
            "{workload.optimizer}, whose step works on whole matrices, with sharded states",
            "zero_stage 0",
        ),
        source=_MATRICES,
    ),
    *(
        Rule(
            when=_IN_BACKWARD,
            require=is_once,
            field=workload.optimizer_in_backward.path,
            topic=Topic.OPTIMIZER,
            refusal=invalid(
                "optimizer_in_backward drops a gradient once it is stepped, so "
                f"{is_once.field.rpartition('.')[2]} cannot see them all; drop one"
            ),
            source="torch 2.13, register_post_accumulate_grad_hook",
        )
        for is_once in (
            is_false(workload.gradient_clipping),
            is_at_most(workload.gradient_accumulation_steps, 1),
        )
    ),
    Rule(
        when=_IN_BACKWARD,
        require=all_of(is_absent(precision.main_grad_dtype), is_absent(precision.master_dtype)),
        field=workload.optimizer_in_backward.path,
        topic=Topic.OPTIMIZER,
        refusal=unmodelled(
            "optimizer_in_backward beside master weights or main gradients",
            "precision fp32, bf16, fp16, amp_bf16, amp_fp16, bf16_autocast",
        ),
    ),
    Rule(
        when=_IN_BACKWARD,
        require=is_in(workload.optimizer, *_SINGLE),
        field=workload.optimizer_in_backward.path,
        topic=Topic.OPTIMIZER,
        refusal=unmodelled(
            "optimizer_in_backward with {workload.optimizer}",
            "optimizers whose step looks at each tensor alone",
        ),
    ),
    Rule(
        when=_IN_BACKWARD,
        require=any_of(
            is_in(layout.num_gpus, 1),
            all_of(is_in(layout.zero_stage, 3), is_above(layout.shards, 1)),
        ),
        field=workload.optimizer_in_backward.path,
        topic=Topic.OPTIMIZER,
        refusal=unmodelled(
            "optimizer_in_backward beside replicated gradients, whose buckets outlive their step",
            *("one GPU", "sharding fsdp2"),
        ),
    ),
    Rule(
        when=is_above(model.learned_positions, 0),
        require=is_at_most(workload.sequence_length, model.learned_positions),
        reason="{workload.sequence_length} tokens, but {model.family} has learned positions for "
        "{model.learned_positions}",
        source="the model's position table (max_position_embeddings)",
    ),
    Rule(
        when=is_above(model.limited_positions, 0),
        require=is_at_most(workload.sequence_length, model.limited_positions),
        topic=Topic.SEQUENCE,
        refusal=invalid(
            "{workload.sequence_length} tokens, but {model.family} has learned positions for "
            "{model.limited_positions}: say {model.limited_positions} or fewer"
        ),
        source="the model's position table (max_position_embeddings)",
    ),
    KERNELS[0],
    Rule(
        when=all_of(
            is_in(workload.activation_checkpointing, Checkpointing.SELECTIVE),
            is_given(workload.lora),
        ),
        require=is_not_in(workload.activation_checkpointing, Checkpointing.SELECTIVE),
        topic=Topic.CHECKPOINTING,
        refusal=unmodelled("selective checkpointing with adapters", "none", "full"),
        reason="selective checkpointing with adapters",
    ),
    Rule(
        when=all_of(is_true(model.alternates), is_given(workload.selective_every)),
        require=is_not_in(workload.activation_checkpointing, Checkpointing.SELECTIVE),
        topic=Topic.CHECKPOINTING,
        refusal=unmodelled(
            "selective checkpointing of {model.family}, whose layers alternate", "none", "full"
        ),
        reason="every n-th layer of {model.family}, whose layers alternate",
    ),
    KERNELS[1],
    Rule(
        when=is_true(model.has_encoder),
        require=is_not_in(workload.activation_checkpointing, Checkpointing.SELECTIVE),
        reason="every n-th layer of {model.family}, which has two stacks of them",
    ),
    Rule(
        when=is_true(model.keeps_fp32),
        require=is_not_in(precision.param_dtype, DType.FP16),
        field="workload.precision",
        topic=Topic.HALF,
        refusal=_HALF,
        reason=_HALF_REASON,
        source=_KEEP_IN_FP32,
    ),
    Rule(
        when=is_true(model.clamps_half),
        require=is_not_in(precision.param_dtype, DType.FP16),
        field="workload.precision",
        topic=Topic.CLAMPS,
        refusal=unmodelled(
            "fp16 weights of {model.family}, which clamps its hidden states then",
            *("bf16", "fp32", "amp_fp16"),
        ),
        reason="fp16 weights of {model.family}, which clamps its hidden states then",
        source="transformers 5.23, clamp_value of the encoder's layers",
    ),
    Rule(
        when=all_of(is_true(model.keeps_fp32), is_false(precision.autocast)),
        require=is_not_in(precision.compute_dtype, DType.FP16),
        field="workload.precision",
        topic=Topic.HALF,
        refusal=_HALF,
        reason=_HALF_REASON,
        source=_KEEP_IN_FP32,
    ),
    Rule(
        when=is_true(model.has_encoder),
        require=is_absent(workload.selective_every),
        topic=Topic.LENGTHS,
        refusal=unmodelled(
            "every n-th layer of {model.family}, which has two stacks of them",
            *("none", "full"),
            field="workload.activation_checkpointing",
        ),
    ),
    Rule(
        when=is_true(model.keeps_fp32),
        require=is_not_in(workload.method, Method.QLORA),
        topic=Topic.LENGTHS,
        refusal=unmodelled(
            "quantised {model.family}, whose {model.tree.keeps_fp32} transformers keeps in fp32",
            *("full", "lora"),
        ),
        reason="quantised {model.family}, of which transformers keeps some layers in fp32",
        source=_KEEP_IN_FP32,
    ),
    Rule(
        when=is_true(model.quantized),
        require=is_not_in(workload.method, Method.FULL),
        topic=Topic.WEIGHTS,
        refusal=invalid(
            "weights packed as {model.packing.value} get no gradient: train adapters on them "
            "(method lora), or give the model in 16 bits, whose config has no quantization_config"
        ),
        reason="quantised weights get no gradient: train adapters on them",
        source="transformers 5.23 trainer.py, validate_quantization_for_training: a purely "
        "quantized model cannot be fine-tuned",
    ),
    Rule(
        require=any_of(
            is_true(precision.autocast),
            is_same(precision.compute_dtype, precision.param_dtype),
            is_in(layout.sharding, Sharding.FSDP2),
            all_of(is_in(layout.zero_stage, 3), is_above(_RANKS, 1)),
        ),
        field="workload.precision",
        reason="a cast from {workload.precision.param_dtype} to {workload.precision.compute_dtype} "
        "happens when sharded parameters are gathered: here none are",
        source="torch 2.13 distributed/fsdp/_fully_shard/_fsdp_api.py, MixedPrecisionPolicy",
    ),
    *COMPRESSIONS,
    *OFFLOADS,
    *LOSSES,
    *POLICIES,
)
