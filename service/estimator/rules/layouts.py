"""Rules for layouts.

The errors name the frameworks that can run the others.
"""

from importlib import import_module

from service.estimator.model.architecture import Architecture
from service.estimator.model.tensor_parallel.split_plan import FIELD, TRANSFORMERS
from service.estimator.values.errors import NotModelledError
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.workload import OffloadTarget, TrainWorkload

_PLANNED = frozenset(
    {
        "cohere",
        "cohere2",
        "gemma",
        "gemma2",
        "gemma3_text",
        "glm",
        "glm4",
        "glm4_moe",
        "gpt_neox",
        "granite",
        "llama",
        "ministral",
        "mistral",
        "mixtral",
        "nemotron",
        "olmo",
        "olmo2",
        "olmoe",
        "phi",
        "phi3",
        "qwen2",
        "qwen3",
        "qwen3_moe",
        "smollm3",
        "starcoder2",
    },
)
"""Families whose layers are all split by a ``base_model_tp_plan`` in transformers 5.23."""
_ONE_STAGE = {
    "pipeline_parallel": (
        "one stage: transformers does not train through a pipeline, framework megatron does"
    ),
    "context_parallel": "1 in framework transformers; framework megatron splits sequences",
    "expert_parallel": "1 in framework transformers; framework megatron spreads experts",
    "virtual_pipeline_stages": "1 in framework transformers; framework megatron interleaves stages",
}


def check_layout(model: Architecture, layout: Layout) -> None:
    """Raise for degrees of one replica without a term.

    Degrees that the model does not divide by are refused too.
    """
    if layout.tensor_parallel > 1:
        _check_divisible(model, layout.tensor_parallel)
        if model.family not in _PLANNED or model.quantization is not None:
            reason = " with quantised weights" if model.quantization is not None else ""
            modelled = ["dense 16-bit families with a base_model_tp_plan", "engine vllm"]
            raise NotModelledError(
                f"tensor_parallel of {model.family}{reason}", field=FIELD, modelled=modelled
            )
    _check_one_stage(layout)
    _check_sharding(layout)


def check_training_layout(model: Architecture, workload: TrainWorkload, layout: Layout) -> None:
    """Raise for layouts that transformers cannot run, or without a term.

    Data parallel times tensor parallel is modelled.
    """
    _check_one_stage(layout)
    _check_sharding(layout)
    if layout.sharding is Sharding.FSDP1:
        _check_flat(workload)
    if layout.tensor_parallel == 1:
        return
    _check_divisible(model, layout.tensor_parallel)
    if layout.sequence_parallel:
        what = "sequence_parallel of framework transformers, whose plans replicate the norms"
        raise NotModelledError(
            what, field="layout.sequence_parallel", modelled=["false", "framework megatron"]
        )
    if model.family not in _PLANNED:
        modelled = ["families whose layers a base_model_tp_plan splits", "framework megatron"]
        raise NotModelledError(f"tensor_parallel of {model.family}", field=FIELD, modelled=modelled)
    if workload.lora is not None:
        raise NotModelledError(
            "adapters on layers that ranks share", field=FIELD, modelled=["method full"]
        )
    if layout.data_parallel > 1 and layout.sharding is not Sharding.FSDP2:
        what = f"sharding {layout.sharding.value!r} beside tensor_parallel"
        raise NotModelledError(
            what, field="layout.sharding", modelled=["fsdp2", "megatron with framework megatron"]
        )


def _check_divisible(model: Architecture, ranks: int) -> None:
    # What shares a model out knows every kind of module; one rank needs none of it.
    import_module("service.estimator.model.tensor_parallel.local").check_divisible(
        model, ranks, TRANSFORMERS
    )


def _check_one_stage(layout: Layout) -> None:
    for name, instead in _ONE_STAGE.items():
        if getattr(layout, name) > 1:
            raise NotModelledError(
                f"{name} {getattr(layout, name)}", field=f"layout.{name}", modelled=[instead]
            )
    if layout.expert_tensor_parallel not in {None, layout.tensor_parallel}:
        what = f"expert_tensor_parallel {layout.expert_tensor_parallel}"
        raise NotModelledError(
            what, field="layout.expert_tensor_parallel", modelled=[str(layout.tensor_parallel)]
        )


def _check_flat(workload: TrainWorkload) -> None:
    """Raise for what flat parameters have no term for."""
    if workload.frozen:
        what = (
            "frozen modules in flat parameters with trained ones, whose gradients FSDP1 makes all "
            "the same"
        )
        raise NotModelledError(
            what,
            field="workload.frozen",
            modelled=["sharding fsdp2", "adapters, units of their own"],
        )
    if workload.offload.parameters is not OffloadTarget.NONE:
        what = "offload of flat parameters, unit by unit"
        raise NotModelledError(
            what, field="workload.offload.parameters", modelled=["sharding fsdp2 or deepspeed"]
        )
    if workload.optimizer_in_backward:
        what = "optimizer_in_backward with flat parameters, whose shard is one tensor"
        raise NotModelledError(
            what, field="workload.optimizer_in_backward", modelled=["sharding fsdp2"]
        )


def _check_sharding(layout: Layout) -> None:
    num_ranks = layout.data_parallel * layout.context_parallel
    for name, is_set in (
        ("shard_embeddings_separately", layout.shard_embeddings_separately),
        ("shard_size", layout.shard_size not in {None, num_ranks}),
    ):
        if is_set and layout.sharding is not Sharding.FSDP2:
            what = f"{name} {getattr(layout, name)} of {layout.sharding.value} ranks".lower()
            raise NotModelledError(what, field=f"layout.{name}", modelled=["sharding fsdp2"])
