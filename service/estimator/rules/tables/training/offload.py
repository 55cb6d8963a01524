"""Rules of what is kept off the GPU."""

from service.estimator.rules.grammar.conditions import (
    all_of,
    any_of,
    is_at_most,
    is_given,
    is_in,
    is_not_in,
    is_same,
)
from service.estimator.rules.grammar.fields import layout, offload, workload
from service.estimator.rules.grammar.rule import Rule, Topic, invalid, unmodelled
from service.estimator.values.layout import Sharding
from service.estimator.values.workload import Checkpointing, OffloadTarget

_NONE, _CPU, _NVME = OffloadTarget.NONE, OffloadTarget.CPU, OffloadTarget.NVME

_FSDP2_OFFLOAD = "torch 2.13 distributed/fsdp/_fully_shard/_fsdp_api.py, CPUOffloadPolicy"

_DEEPSPEED = "deepspeed.ai/docs/config-json"

OFFLOADS = (
    Rule(
        when=is_not_in(offload.parameters, _NONE),
        require=is_in(layout.zero_stage, 3),
        field=offload.parameters.path,
        topic=Topic.OFFLOAD,
        refusal=invalid(
            "offload of parameters needs them sharded: zero_stage is {layout.zero_stage}, and must "
            "be 3"
        ),
        reason="offload of parameters needs them sharded: zero_stage is {layout.zero_stage}, and "
        "must be 3",
        source=f"{_DEEPSPEED}, offload_param: valid only with stage 3; torch FSDP2 "
        "CPUOffloadPolicy",
    ),
    Rule(
        when=is_in(layout.sharding, Sharding.FSDP2),
        require=is_in(offload.parameters, _NONE, _CPU),
        topic=Topic.OFFLOAD,
        refusal=invalid("FSDP2 offloads to the CPU alone (CPUOffloadPolicy); nvme is DeepSpeed's"),
        reason="FSDP2 offloads to the CPU alone",
        source=_FSDP2_OFFLOAD,
    ),
    Rule(
        when=is_in(layout.sharding, Sharding.FSDP2),
        require=is_same(offload.optimizer, offload.parameters),
        reason="with FSDP2 the optimizer's states live where the parameters do",
        source=f"{_FSDP2_OFFLOAD}: gradients and the optimizer step are on the CPU",
    ),
    Rule(
        when=all_of(is_in(layout.sharding, Sharding.FSDP2), is_not_in(offload.parameters, _NONE)),
        require=is_same(offload.optimizer, offload.parameters),
        topic=Topic.OFFLOAD,
        refusal=invalid(
            "with FSDP2 the optimizer's states live where the parameters do; set "
            "offload.optimizer to cpu as well"
        ),
        source=f"{_FSDP2_OFFLOAD}: gradients and the optimizer step are on the CPU",
    ),
    Rule(
        when=all_of(is_in(offload.parameters, _NONE), is_not_in(offload.optimizer, _NONE)),
        require=all_of(is_in(layout.sharding, Sharding.DEEPSPEED), is_not_in(layout.zero_stage, 0)),
        field=offload.optimizer.path,
        topic=Topic.OFFLOAD,
        refusal=unmodelled(
            "offload of the optimizer alone on {layout.sharding} ranks",
            "sharding deepspeed with a zero_stage",
        ),
        source=f"{_DEEPSPEED}: CPU offloading is available with ZeRO stage 1, 2, 3",
    ),
    Rule(
        when=any_of(
            is_in(layout.sharding, Sharding.DDP, Sharding.FSDP1),
            all_of(is_in(layout.sharding, Sharding.DEEPSPEED), is_in(layout.zero_stage, 0)),
        ),
        require=is_in(offload.optimizer, _NONE),
        reason="nobody moves the optimizer's states of {layout.sharding} ranks at zero_stage "
        "{layout.zero_stage}",
        source=f"{_DEEPSPEED}: CPU offloading is available with ZeRO stage 1, 2, 3",
    ),
    Rule(
        when=is_at_most(layout.zero_stage, 2),
        require=is_in(offload.optimizer, _NONE, _CPU),
        topic=Topic.OFFLOAD,
        refusal=invalid(
            "DeepSpeed swaps the optimizer to nvme in stage 3 alone: zero_stage is "
            "{layout.zero_stage}; cpu works in any"
        ),
        reason="DeepSpeed moves states to NVMe at stage 3 alone, not at {layout.zero_stage}",
        source=f"{_DEEPSPEED}: NVMe offloading is available only with ZeRO stage 3",
    ),
    Rule(
        require=is_in(offload.activations, _NONE, _CPU),
        topic=Topic.OFFLOADED_ACTIVATIONS,
        refusal=unmodelled("activations on nvme", "none", "cpu"),
        reason="activations do not go to NVMe",
        source="torch 2.13 autograd/graph.py, save_on_cpu",
    ),
    Rule(
        when=is_not_in(workload.activation_checkpointing, Checkpointing.FULL),
        require=is_in(offload.activations, _NONE),
        topic=Topic.OFFLOADED_ACTIVATIONS,
        refusal=unmodelled(
            "offload of activations with activation_checkpointing "
            "{workload.activation_checkpointing}",
            "activation_checkpointing full, whose layers' inputs move",
        ),
        reason="activations move where whole layers are recomputed, whose inputs they are",
        source="no term for other tensors that move",
    ),
    Rule(
        when=is_given(workload.lora),
        require=all_of(is_in(offload.optimizer, _NONE), is_in(offload.parameters, _NONE)),
        reason="offload of a model that is trained in part",
    ),
    Rule(
        when=any_of(is_given(workload.lora), is_not_in(workload.frozen, ())),
        require=all_of(is_in(offload.optimizer, _NONE), is_in(offload.parameters, _NONE)),
        field="workload.offload",
        topic=Topic.OFFLOAD,
        refusal=unmodelled(
            "offload of a model that is trained in part", "method full without frozen parts"
        ),
    ),
)
"""In the order in which the planner asks."""
