"""A job on a full GPU: cached segments go back before it fails, and what is reserved never exceeds
what there is.
"""

from dataclasses import replace

import pytest

from service.catalog.gpus import find_gpus
from service.catalog.models import load_config, resolve_model
from service.estimator.estimate import estimate
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.values.device import Device
from service.estimator.values.layout import Layout
from service.estimator.values.precision import POLICIES
from service.estimator.values.result import Detail, Estimate
from service.estimator.values.units import GIB, MIB
from service.estimator.values.workload import Allocator, Checkpointing, TrainWorkload

WORKLOAD = TrainWorkload(sequence_length=1024, micro_batch_size=4, precision=POLICIES["bf16"])


def on(
    usable_bytes: int, workload: TrainWorkload = WORKLOAD, detail: Detail = Detail.FULL
) -> Estimate:
    """Return the answer of a 1B on a GPU of so many bytes."""
    model = architecture_from_config(load_config(resolve_model("llama-3.2-1b")))
    device = Device(name="card", capacity_bytes=usable_bytes, usable_bytes=usable_bytes)
    return estimate(model, workload, layout=Layout(), device=device, detail=detail)


def test_a_full_gpu_is_used_up_and_not_more() -> None:
    """Between what runs and what would be cached with room, the job takes all that there is: it
    fits, but tightly.
    """
    roomy = on(80 * GIB)
    outside = roomy.device_bytes - roomy.reserved_bytes
    full = outside + (roomy.allocated_bytes * 1043 // 1000 + roomy.reserved_bytes) // 2

    found = on(full)

    assert found.device_bytes == full
    assert found.allocated_bytes == roomy.allocated_bytes
    assert found.device_interval.low <= full < found.device_interval.high
    assert found.reserved_interval.low <= found.reserved_bytes
    assert sum(part.bytes for part in found.components) == found.device_bytes


def test_a_replay_on_a_full_gpu_releases_what_is_cached() -> None:
    """A checkpointed 8B ran on an H100 with a batch of 6, releasing what was cached once, and not
    with one of 7.
    """
    model = architecture_from_config(load_config(resolve_model("llama-3-8b")))
    workload = TrainWorkload(
        sequence_length=2048,
        micro_batch_size=6,
        precision=POLICIES["bf16"],
        optimizer="adamw_fused",
        activation_checkpointing=Checkpointing.FULL,
    )
    device = find_gpus("H100-SXM5-80GB")[0].to_device()

    # With so much less, what recorded runs took beyond their replays would not find room.
    fuller = replace(device, usable_bytes=device.usable_bytes - 640 * MIB)

    six, seven, six_on_fuller = (
        estimate(
            model,
            replace(workload, micro_batch_size=batch),
            layout=Layout(),
            device=gpu,
            detail=Detail.REPLAYED,
        )
        for batch, gpu in ((6, device), (7, device), (6, fuller))
    )

    assert six.device_bytes <= six.device_interval.high < device.usable_bytes
    assert six.device_interval.high > fuller.usable_bytes
    assert six_on_fuller.device_bytes < six_on_fuller.device_interval.high == fuller.usable_bytes
    assert seven.device_bytes > device.usable_bytes


@pytest.mark.parametrize("allocator", list(Allocator))
def test_what_is_allocated_must_find_room(allocator: Allocator) -> None:
    """A GPU that is smaller than the tensors does not become large enough by giving segments
    back.
    """
    workload = replace(WORKLOAD, allocator=allocator)
    roomy = on(80 * GIB, workload)

    found = on(roomy.allocated_bytes, workload)

    assert found.device_bytes == roomy.device_bytes > roomy.allocated_bytes
