"""Rules of DeepSpeed's optimizers that exchange one bit an element."""

from service.estimator.rules.grammar.conditions import (
    all_of,
    is_above,
    is_absent,
    is_at_most,
    is_given,
    is_in,
)
from service.estimator.rules.grammar.fields import layout, precision, workload
from service.estimator.rules.grammar.rule import Rule, Topic, invalid, unmodelled
from service.estimator.values.layout import Sharding
from service.estimator.values.optimizers import COMPRESSING

_COMPRESSES = is_in(workload.optimizer, *COMPRESSING)
_ENGINE = "deepspeed 0.19.6 runtime/engine.py, _configure_basic_optimizer"

COMPRESSIONS = (
    Rule(
        when=_COMPRESSES,
        require=all_of(is_in(layout.sharding, Sharding.DEEPSPEED), is_in(layout.zero_stage, 0)),
        field=workload.optimizer.path,
        topic=Topic.OPTIMIZER,
        refusal=invalid(
            "DeepSpeed alone makes optimizer {workload.optimizer}, and refuses ZeRO beside it: say "
            "sharding deepspeed with zero_stage 0, not {layout.sharding} with {layout.zero_stage}"
        ),
        reason="DeepSpeed alone makes {workload.optimizer}, and refuses ZeRO beside it",
        source=_ENGINE,
    ),
    Rule(
        when=_COMPRESSES,
        require=all_of(is_above(layout.shards, 1), is_at_most(layout.tensor_parallel, 1)),
        field=workload.optimizer.path,
        topic=Topic.OPTIMIZER,
        refusal=unmodelled(
            "{workload.optimizer} on one data-parallel rank, or on tensor-parallel ones",
            "data_parallel 2 or more with tensor_parallel 1",
        ),
        reason="{workload.optimizer} on one data-parallel rank, or on tensor-parallel ones",
    ),
    Rule(
        when=_COMPRESSES,
        require=all_of(is_given(precision.master_dtype), is_absent(precision.main_grad_dtype)),
        field="workload.precision",
        topic=Topic.OPTIMIZER,
        refusal=unmodelled(
            "{workload.optimizer} without fp32 masters of 16-bit weights and their gradients",
            *("precision fp16_mixed", "bf16_mixed"),
        ),
        reason="{workload.optimizer} without fp32 masters of 16-bit weights",
        source="deepspeed 0.19.6 runtime/fp16/fused_optimizer.py and unfused_optimizer.py",
    ),
    Rule(
        when=_COMPRESSES,
        require=is_absent(workload.lora),
        field=workload.optimizer.path,
        topic=Topic.OPTIMIZER,
        refusal=unmodelled("{workload.optimizer} of adapters", "method full"),
        reason="{workload.optimizer} of adapters",
    ),
)
