"""Checks of the training jobs and layouts of Megatron-LM.

They refuse jobs that are not modelled, and layouts that Megatron-LM refuses itself.
"""

from service.estimator.backends.megatron.stages import has_experts
from service.estimator.backends.megatron.states import STATES_PER_PARAMETER
from service.estimator.memory.model_limits import check_sequence
from service.estimator.model.architecture import Architecture
from service.estimator.model.tensor_parallel.local import check_divisible
from service.estimator.model.tensor_parallel.split_plan import ENGINE
from service.estimator.values.dtypes import DType
from service.estimator.values.errors import InvalidInputError, NotModelledError
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.refusals import check_modelled
from service.estimator.values.workload import Attention, Loss, Method, Offload, TrainWorkload

FAMILIES = frozenset(
    {
        "deepseek_v2",
        "deepseek_v3",
        "gpt2",
        "llama",
        "mistral",
        "mixtral",
        "nemotron",
        "phi3",
        "qwen2",
        "qwen2_moe",
        "qwen3",
        "qwen3_moe",
        "smollm3",
        "starcoder2",
    },
)
"""Decoders that Megatron Core's GPT model builds from its arguments alone."""
_UNSUPPORTED_DEFAULTS: dict[str, object] = {
    "keeps_logits": False,
    "padding_mask": False,
    "reentrant_checkpointing": False,
    "selective_every": None,
    "framework_version": None,
    "compile": False,
    "float8": False,
    "optimizer_in_backward": False,
    "fp32_norms_and_head": False,
    "peft": None,
    "frozen": (),
    "decoder_length": None,
    "num_images": None,
    "image_tokens": None,
    "audio_frames": None,
}
"""Options that are not modelled, with the value that changes nothing."""


def check_megatron(model: Architecture, workload: TrainWorkload, layout: Layout) -> None:
    """Check that a job is modelled and can run.

    Raises NotModelledError or InvalidInputError.
    """
    if model.family not in FAMILIES:
        what = f"{model.family} in framework megatron"
        raise NotModelledError(what, field="model", modelled=sorted(FAMILIES))
    check_modelled(workload.method, "workload.method", (Method.FULL,))
    check_modelled(workload.loss, "workload.loss", (Loss.FULL_LOGITS, Loss.FUSED_CROSS_ENTROPY))
    check_modelled(workload.optimizer, "workload.optimizer", tuple(STATES_PER_PARAMETER))
    check_modelled(
        workload.attention, "workload.attention", (Attention.SDPA, Attention.FLASH, Attention.EAGER)
    )
    for name, default in _UNSUPPORTED_DEFAULTS.items():
        if (value := getattr(workload, name)) != default:
            raise NotModelledError(
                f"{name} {value!r} in framework megatron",
                field=f"workload.{name}",
                modelled=[str(default)],
            )
    if workload.offload != Offload():
        raise NotModelledError(
            "offload in framework megatron", field="workload.offload", modelled=["none"]
        )
    _check_precision(workload)
    check_sequence(model, workload.sequence_length)
    _check_sharding(layout)
    _check_stages(model, layout)
    _check_sequence_split(model, workload, layout)
    _check_experts(model, layout)


def _check_precision(workload: TrainWorkload) -> None:
    precision = workload.precision
    if precision.autocast or precision.compute_dtype is not precision.param_dtype:
        modelled = ["megatron_bf16", "bf16_mixed", "fp16_mixed"]
        raise NotModelledError(
            "a compute dtype beside that of the weights",
            field="workload.precision",
            modelled=modelled,
        )
    check_modelled(
        precision.param_dtype, "workload.precision.param_dtype", (DType.BF16, DType.FP16)
    )


def _check_sharding(layout: Layout) -> None:
    check_modelled(layout.sharding, "layout.sharding", (Sharding.MEGATRON, Sharding.DDP))
    if layout.zero_stage > 1:
        what = f"zero_stage {layout.zero_stage} in framework megatron (Megatron-FSDP)"
        raise NotModelledError(
            what, field="layout.zero_stage", modelled=["0", "1: the distributed optimizer"]
        )
    if layout.shard_size not in {None, layout.data_parallel * layout.context_parallel}:
        what = f"shard_size {layout.shard_size} in framework megatron"
        raise NotModelledError(
            what, field="layout.shard_size", modelled=["all data-parallel ranks"]
        )
    if layout.shard_embeddings_separately:
        field = "layout.shard_embeddings_separately"
        raise NotModelledError(
            "shard_embeddings_separately in framework megatron", field=field, modelled=["false"]
        )


def _check_stages(model: Architecture, layout: Layout) -> None:
    parts, layers = (
        layout.pipeline_parallel * layout.virtual_pipeline_stages,
        model.num_hidden_layers,
    )
    if layout.virtual_pipeline_stages > 1 and layout.pipeline_parallel == 1:
        message = (
            f"virtual_pipeline_stages {layout.virtual_pipeline_stages} interleaves stages, but "
            "pipeline_parallel is 1"
        )
        raise InvalidInputError(message, field="layout.virtual_pipeline_stages")
    if layers % parts:
        virtual = (
            f" x {layout.virtual_pipeline_stages} interleaved"
            if layout.virtual_pipeline_stages > 1
            else ""
        )
        possible = ", ".join(str(n) for n in range(1, layers + 1) if layers % n == 0)
        message = (
            f"pipeline_parallel {layout.pipeline_parallel}{virtual} does not divide {layers} "
            f"layers into equal stages; stages in all may be {possible}"
        )
        field = (
            "virtual_pipeline_stages" if layout.virtual_pipeline_stages > 1 else "pipeline_parallel"
        )
        raise InvalidInputError(message, field=f"layout.{field}")


def _check_sequence_split(model: Architecture, workload: TrainWorkload, layout: Layout) -> None:
    check_divisible(model, layout.tensor_parallel, ENGINE)
    parts = 2 * layout.context_parallel if layout.context_parallel > 1 else 1
    if workload.sequence_length % parts:
        message = (
            f"sequence_length {workload.sequence_length} does not divide by 2 x context_parallel "
            f"{layout.context_parallel}: each rank takes two slices, so that causal work is even"
        )
        raise InvalidInputError(message, field="workload.sequence_length")
    spread = layout.tensor_parallel if layout.sequence_parallel else 1
    if (
        workload.sequence_length // layout.context_parallel % spread
        or model.spec.hidden_size % spread
    ):
        message = (
            f"sequence_length {workload.sequence_length} does not divide over {spread} "
            "tensor-parallel ranks"
        )
        raise InvalidInputError(message, field="layout.sequence_parallel")


def _check_experts(model: Architecture, layout: Layout) -> None:
    spec = model.spec
    if not has_experts(model):
        if layout.expert_parallel > 1:
            message = f"expert_parallel {layout.expert_parallel}, but {spec.family} has no experts"
            raise InvalidInputError(message, field="layout.expert_parallel")
        return
    if spec.num_experts % layout.expert_parallel:
        message = (
            f"expert_parallel {layout.expert_parallel} does not divide {spec.num_experts} experts"
        )
        raise InvalidInputError(message, field="layout.expert_parallel")
    if layout.tensor_parallel > 1 and not layout.sequence_parallel:
        message = (
            "experts beside tensor_parallel need sequence_parallel "
            "(megatron/core/transformer/transformer_config.py)"
        )
        raise InvalidInputError(message, field="layout.sequence_parallel")
