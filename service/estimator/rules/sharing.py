"""Rules for models whose layers share weights.

Sharding by layers, and quantised weights, have no term there.
"""

from service.estimator.memory.adapter_bases import resolve_base_weights
from service.estimator.memory.fsdp_buffers import resolve_gathering
from service.estimator.model.architecture import Architecture
from service.estimator.values.errors import NotModelledError
from service.estimator.values.layout import Layout
from service.estimator.values.workload import OffloadTarget, TrainWorkload


def check_shared_training(model: Architecture, workload: TrainWorkload, layout: Layout) -> None:
    """Raise for shared weights that are gathered layer by layer.

    It would part them (torch 2.13, ``fully_shard``).
    """
    if not model.shares_weights:
        return
    if (
        resolve_gathering(
            workload.precision,
            layout,
            offloads=workload.offload.parameters is not OffloadTarget.NONE,
        )
        is not None
    ):
        what = f"sharded or offloaded parameters of {model.family}, whose layers share weights"
        raise NotModelledError(
            what, field="layout.sharding", modelled=["ddp", "deepspeed with zero_stage 2 or less"]
        )
    check_shared_codes(
        model,
        quantised=resolve_base_weights(model, workload).scheme is not None,
        field="workload.method",
    )


def check_shared_codes(model: Architecture, *, quantised: bool, field: str) -> None:
    """Raise for quantised weights that layers share."""
    if model.shares_weights and quantised:
        what = f"quantised weights of {model.family}, whose layers share some"
        raise NotModelledError(what, field=field, modelled=["weights that are not quantised"])
