"""Rules of number formats, and of weights that layers share."""

from service.estimator.rules.grammar.conditions import (
    Field,
    all_of,
    any_of,
    is_above,
    is_at_most,
    is_false,
    is_given,
    is_in,
    is_not_in,
    is_same,
    is_true,
    satisfies,
)
from service.estimator.rules.grammar.facts import Case
from service.estimator.rules.grammar.fields import layout, lora, model, offload, precision, workload
from service.estimator.rules.grammar.rule import OTHERS, Rule, Topic, invalid, unmodelled
from service.estimator.rules.predicates.models import contrasts_images, get_training
from service.estimator.values.dtypes import DType
from service.estimator.values.layout import FULLY_SHARDED, Sharding
from service.estimator.values.workload import Method, OffloadTarget

_DTYPES = (DType.FP32, DType.BF16, DType.FP16)

_ROLES = ("param", "compute", "grad", "master", "main_grad", "optimizer")

_TORCH = "torch 2.13 distributed/fsdp"


_AMP = "torch 2.13 amp"


def _unscales(case: Case) -> bool:
    """Return whether a scaler can unscale the gradients."""
    workload = get_training(case)
    adapters = workload.lora
    return (workload.precision.grad_dtype if adapters is None else adapters.dtype) is not DType.FP16


_DTYPES_OF_STEPS = tuple(
    Rule(
        require=is_in(Field(f"workload.precision.{role}_dtype"), *_DTYPES, None),
        topic=Topic.PRECISION,
        refusal=OTHERS,
    )
    for role in _ROLES
)

SHARED_WEIGHTS = (
    Rule(
        when=satisfies(contrasts_images),
        require=is_not_in(layout.sharding, *FULLY_SHARDED),
        topic=Topic.SCALARS,
        refusal=invalid(
            "{layout.sharding} shards no scalar parameter, and the logit_scale of {model.family} "
            "is one; use ddp or deepspeed"
        ),
        source="torch 2.13, both of its FSDPs",
    ),
    Rule(
        when=is_true(model.shares_weights),
        require=all_of(
            is_in(offload.parameters, OffloadTarget.NONE),
            is_not_in(layout.sharding, Sharding.FSDP2),
            any_of(is_not_in(layout.zero_stage, 3), is_at_most(layout.shards, 1)),
        ),
        field=layout.sharding.path,
        topic=Topic.SHARED,
        refusal=unmodelled(
            "sharded or offloaded parameters of {model.family}, whose layers share weights",
            *("ddp", "deepspeed with zero_stage 2 or less"),
        ),
        source="torch 2.13, fully_shard: units by layers would part shared weights",
    ),
    Rule(
        when=is_true(model.shares_weights),
        require=all_of(is_false(model.quantized), is_not_in(workload.method, Method.QLORA)),
        field=workload.method.path,
        topic=Topic.SHARED,
        refusal=unmodelled(
            "quantised weights of {model.family}, whose layers share some",
            "weights that are not quantised",
        ),
    ),
)

AUTOCAST = (
    Rule(
        when=is_true(precision.autocast),
        require=is_not_in(precision.compute_dtype, DType.FP32),
        field=precision.autocast.path,
        topic=Topic.PRECISION,
        refusal=invalid(
            "CUDA's autocast has bf16 and fp16, and turns itself off for "
            "{workload.precision.compute_dtype}; drop autocast"
        ),
        reason="CUDA's autocast has bf16 and fp16, not {workload.precision.compute_dtype}",
        source=f"{_AMP}/autocast_mode.py",
    ),
    Rule(
        when=all_of(is_true(precision.autocast), is_in(precision.compute_dtype, DType.FP16)),
        require=satisfies(_unscales, precision.grad_dtype, workload.lora),
        field="workload.precision",
        topic=Topic.PRECISION,
        refusal=invalid(
            "autocast to fp16 scales its gradients, and the scaler refuses fp16 ones: train fp32 "
            "weights (amp_fp16), fp32 adapters, or take bf16_autocast"
        ),
        reason="the gradient scaler of fp16 autocast refuses fp16 gradients",
        source=f"{_AMP}/grad_scaler.py, _unscale_grads_: Attempting to unscale FP16 gradients",
    ),
)

STEP_PRECISION = (
    *_DTYPES_OF_STEPS,
    *AUTOCAST,
    Rule(
        when=is_given(workload.lora),
        require=is_in(lora.dtype, *_DTYPES),
        topic=Topic.PRECISION,
        refusal=OTHERS,
    ),
    Rule(
        when=is_false(precision.autocast),
        require=any_of(
            is_same(precision.compute_dtype, precision.param_dtype),
            is_in(layout.sharding, Sharding.FSDP2),
            all_of(is_in(layout.zero_stage, 3), is_above(layout.shards, 1)),
        ),
        field=precision.compute_dtype.path,
        topic=Topic.PRECISION,
        refusal=invalid(
            "compute_dtype {workload.precision.compute_dtype} beside "
            "{workload.precision.param_dtype} parameters without autocast is a cast at gather: "
            "use sharding 'fsdp2' or zero_stage 3, or set autocast"
        ),
        source=f"{_TORCH}/_fully_shard/_fsdp_api.py, MixedPrecisionPolicy",
    ),
)
