"""Checks of torchtitan workloads, and differences between its releases."""

from dataclasses import replace

from service.estimator.values.errors import InvalidInputError, NotModelledError
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.workload import Attention, Checkpointing, Loss, Method, TrainWorkload

LOSS_NOT_COMPILED = ("2024-12-19", "2025-04")
"""Releases between pull requests 755, which turned the compiled loss off, and 1033, which brought
it back.
"""


_UNSUPPORTED_DEGREES = {
    "pipeline_parallel": "1, or framework megatron",
    "expert_parallel": "1, or framework megatron",
    "virtual_pipeline_stages": "1, or framework megatron",
}
"""Degrees that are not modelled, with the value that is."""


def is_loss_compiled(workload: TrainWorkload) -> bool:
    """Return whether the loss is compiled with the model.

    ``framework_version`` is the date of the release.
    """
    first, last = LOSS_NOT_COMPILED
    return workload.compile and not first <= (workload.framework_version or last) < last


def split_to_rank(workload: TrainWorkload, layout: Layout) -> tuple[TrainWorkload, Layout]:
    """Return the workload and layout of one rank.

    It has its part of each sequence, with states over data and context ranks. For context ranks,
    sequences are split into twice as many parts as there are ranks, of which each takes an early
    and a late one; its tensor-parallel ranks share those between them.
    """
    num_parts = layout.context_parallel * layout.tensor_parallel
    if num_parts == 1:
        return workload, layout
    if workload.sequence_length % (2 * num_parts):
        what = f"sequence_length {workload.sequence_length} is no multiple of {2 * num_parts}"
        message = (
            f"{what}, twice the context_parallel x tensor_parallel ranks (torchtitan's "
            "seq_len_divisor)"
        )
        raise InvalidInputError(message, field="workload.sequence_length")
    local = replace(workload, sequence_length=workload.sequence_length // num_parts)
    if layout.context_parallel == 1:
        return local, layout
    return local, replace(
        layout, context_parallel=1, data_parallel=layout.data_parallel * layout.context_parallel
    )


def check_torchtitan(workload: TrainWorkload, layout: Layout) -> None:
    """Check that torchtitan can run a job and that it is modelled.

    Raises NotModelledError or InvalidInputError.
    """
    if workload.method is not Method.FULL:
        raise NotModelledError(
            f"{workload.method.value} in torchtitan", field="workload.method", modelled=["full"]
        )
    _check_layout(layout)
    _check_workload(workload)
    if layout.tensor_parallel > 1:
        _check_vocabulary(workload)


def _check_layout(layout: Layout) -> None:
    for name, instead in _UNSUPPORTED_DEGREES.items():
        if getattr(layout, name) > 1:
            raise NotModelledError(
                f"{name} {getattr(layout, name)} in torchtitan",
                field=f"layout.{name}",
                modelled=[instead],
            )
    if layout.sharding is not Sharding.FSDP2 and layout.num_gpus > 1:
        raise NotModelledError(
            f"torchtitan on {layout.sharding.value} ranks",
            field="layout.sharding",
            modelled=["fsdp2", "one GPU"],
        )


def _check_vocabulary(workload: TrainWorkload) -> None:
    """Refuse losses that are not modelled over a split vocabulary."""
    if workload.loss is not Loss.FULL_LOGITS:
        what = f"loss {workload.loss.value} over a vocabulary that tensor_parallel ranks share"
        raise NotModelledError(what, field="workload.loss", modelled=["full_logits"])
    if is_loss_compiled(workload):
        what = (
            "a compiled loss over a vocabulary that tensor_parallel ranks share, of which inductor "
            "keeps what it chooses"
        )
        first, last = LOSS_NOT_COMPILED
        modelled = [
            f"framework_version from {first} to {last}, whose loss is not compiled",
            "compile false",
        ]
        raise NotModelledError(what, field="workload.framework_version", modelled=modelled)


def _check_workload(workload: TrainWorkload) -> None:
    if workload.padding_mask:
        message = "torchtitan trains on packed sequences without a padding mask; drop padding_mask"
        raise InvalidInputError(message, field="workload.padding_mask")
    if workload.reentrant_checkpointing:
        message = (
            "torchtitan's checkpoints are not reentrant "
            "(torchtitan/distributed/activation_checkpoint.py)"
        )
        raise InvalidInputError(message, field="workload.reentrant_checkpointing")
    if workload.attention not in {Attention.SDPA, Attention.FLASH}:
        what = f"attention {workload.attention.value} in torchtitan"
        raise NotModelledError(what, field="workload.attention", modelled=["sdpa", "flash"])
    if workload.loss not in {Loss.FULL_LOGITS, Loss.CHUNKED}:
        modelled = ["full_logits", "chunked"]
        raise NotModelledError(
            f"loss {workload.loss.value} in torchtitan", field="workload.loss", modelled=modelled
        )
    if workload.compile and workload.activation_checkpointing is Checkpointing.NONE:
        what = "compile without checkpointing: what inductor's partitioner keeps is its own choice"
        raise NotModelledError(
            what, field="workload.compile", modelled=["activation_checkpointing selective, full"]
        )
    if workload.float8 and not workload.compile:
        raise NotModelledError(
            "float8 without compile", field="workload.float8", modelled=["float8 with compile"]
        )
    version = workload.framework_version
    if version is not None and not (
        len(version) in {7, 10} and version[:4].isdigit() and version[4] == "-"
    ):
        message = (
            f"framework_version {version!r} of torchtitan is a date, such as 2025-03 or 2024-12-26"
        )
        raise InvalidInputError(message, field="workload.framework_version")
