"""Rules for offloaded parts."""

from service.estimator.values.errors import InvalidInputError, NotModelledError
from service.estimator.values.layout import MAX_ZERO_STAGE, Layout, Sharding
from service.estimator.values.workload import Checkpointing, Offload, OffloadTarget, TrainWorkload

_NONE = OffloadTarget.NONE


def check_offload(workload: TrainWorkload, layout: Layout) -> None:
    """Raise for parts that no library offloads in this layout."""
    offload = workload.offload
    if offload == Offload():
        return
    if offload.activations is not _NONE:
        _check_activations(workload)
    if offload.parameters is not _NONE:
        _check_parameters(offload, layout)
    elif offload.optimizer is not _NONE and (
        layout.sharding is not Sharding.DEEPSPEED or not layout.zero_stage
    ):
        what = f"offload of the optimizer alone on {layout.sharding.value} ranks"
        raise NotModelledError(
            what,
            field="workload.offload.optimizer",
            modelled=["sharding deepspeed with a zero_stage"],
        )
    if offload.optimizer is OffloadTarget.NVME and layout.zero_stage != MAX_ZERO_STAGE:
        # DeepSpeed, docs/_pages/config-json.md: "NVMe offloading is available only with ZeRO stage
        # 3".
        message = (
            "DeepSpeed swaps the optimizer to nvme in stage 3 alone: zero_stage is "
            f"{layout.zero_stage}; cpu works in any"
        )
        raise InvalidInputError(message, field="workload.offload.optimizer")
    moves = offload.parameters is not _NONE or offload.optimizer is not _NONE
    if moves and (workload.lora is not None or workload.frozen):
        what = "offload of a model that is trained in part"
        raise NotModelledError(
            what, field="workload.offload", modelled=["method full without frozen parts"]
        )


def _check_activations(workload: TrainWorkload) -> None:
    field = "workload.offload.activations"
    if workload.offload.activations is OffloadTarget.NVME:
        raise NotModelledError("activations on nvme", field=field, modelled=["none", "cpu"])
    if workload.activation_checkpointing is not Checkpointing.FULL:
        what = (
            "offload of activations with activation_checkpointing "
            f"{workload.activation_checkpointing.value}"
        )
        raise NotModelledError(
            what, field=field, modelled=["activation_checkpointing full, whose layers' inputs move"]
        )


def _check_parameters(offload: Offload, layout: Layout) -> None:
    field = "workload.offload.parameters"
    if layout.zero_stage != MAX_ZERO_STAGE:
        message = (
            f"offload of parameters needs them sharded: zero_stage is {layout.zero_stage}, and "
            "must be 3"
        )
        raise InvalidInputError(message, field=field)
    if layout.sharding is Sharding.FSDP2:
        if offload.parameters is OffloadTarget.NVME:
            message = "FSDP2 offloads to the CPU alone (CPUOffloadPolicy); nvme is DeepSpeed's"
            raise InvalidInputError(message, field=field)
        if offload.optimizer is not offload.parameters:
            message = (
                "with FSDP2 the optimizer's states live where the parameters do; set "
                "offload.optimizer to cpu as well"
            )
            raise InvalidInputError(message, field="workload.offload.optimizer")
