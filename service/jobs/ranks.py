"""Layouts that a probe can run one rank of.

A probe runs a single process that believes to be one rank of many: what is known of the others is
their number.
"""

from collections.abc import Iterator

from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.workload import TrainWorkload, Workload

_ONE_STAGE = {
    "pipeline_parallel": (
        "a stage of a pipeline is a model of its own, and transformers trains through none"
    ),
    "context_parallel": "transformers splits no sequences over ranks",
    "expert_parallel": (
        "how many tokens reach a rank's experts depends on the other ranks, which do not exist"
    ),
    "virtual_pipeline_stages": (
        "a stage of a pipeline is a model of its own, and transformers trains through none"
    ),
}
_SHARDINGS = {
    Sharding.FSDP1: "flat parameters are sliced by addresses, which fake tensors do not have",
    Sharding.DEEPSPEED: (
        "the package deepspeed would have to be installed and to talk to real ranks"
    ),
    Sharding.MEGATRON: "its optimizer is part of Megatron-LM, which runs no models of transformers",
}


def is_distributed(layout: Layout) -> bool:
    """Return whether a rank runs other code than a lone GPU.

    FSDP2 gathers on a single rank as well.
    """
    return layout.num_gpus > 1 or layout.sharding is Sharding.FSDP2


def find_rank_obstacles(layout: Layout, workload: Workload) -> Iterator[tuple[str, str]]:
    """Yield fields that prevent running one rank of a layout.

    Each comes with what would be right.
    """
    if not is_distributed(layout):
        return
    for name, reason in _ONE_STAGE.items():
        if (degree := getattr(layout, name)) > 1:
            yield f"layout.{name}", f"a probe runs {name} 1, not {degree}: {reason}"
    if layout.expert_tensor_parallel not in {None, layout.tensor_parallel}:
        message = (
            "a probe splits experts as it splits layers: expert_tensor_parallel is "
            f"{layout.tensor_parallel} or left out"
        )
        yield "layout.expert_tensor_parallel", message
    if layout.sequence_parallel:
        message = (
            "transformers' tensor-parallel plans replicate norms and residuals: a probe runs "
            "sequence_parallel false"
        )
        yield "layout.sequence_parallel", message
    if isinstance(workload, TrainWorkload):
        yield from _find_training_obstacles(layout, workload)
    else:
        yield from _find_serving_obstacles(layout)


def _find_training_obstacles(layout: Layout, workload: TrainWorkload) -> Iterator[tuple[str, str]]:
    if layout.sharding in _SHARDINGS:
        reason = _SHARDINGS[layout.sharding]
        yield (
            "layout.sharding",
            f"a probe runs ranks of sharding ddp and fsdp2, not {layout.sharding.value}: {reason}",
        )
    if layout.sharding is Sharding.DDP and layout.tensor_parallel > 1 and layout.data_parallel > 1:
        message = (
            "beside tensor_parallel a probe shards with fsdp2: DDP takes no parameters that are "
            "split already"
        )
        yield "layout.sharding", message
    if workload.lora is not None and layout.tensor_parallel > 1:
        message = "a probe puts adapters on whole layers: ask with tensor_parallel 1 or method full"
        yield "layout.tensor_parallel", message
    precision = workload.precision
    if layout.sharding is Sharding.FSDP2 and precision.grad_dtype is not precision.param_dtype:
        message = (
            "FSDP2 keeps gradients in the dtype of the parameters: with param_dtype "
            f"{precision.param_dtype.value} grad_dtype is {precision.param_dtype.value} as well "
            "(reduce_dtype says what is summed)"
        )
        yield "workload.precision.grad_dtype", message


def _find_serving_obstacles(layout: Layout) -> Iterator[tuple[str, str]]:
    if layout.sharding is not Sharding.DDP:
        message = (
            "a served replica is split by tensor_parallel alone, and sharding is "
            f"{layout.sharding.value}: leave it out"
        )
        yield "layout.sharding", message
    if layout.data_parallel > 1:
        message = (
            "data-parallel replicas serve each for itself: ask for one of the "
            f"{layout.data_parallel}, data_parallel 1"
        )
        yield "layout.data_parallel", message
