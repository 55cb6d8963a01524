"""What no run of a question can have shown: more than the GPU has, less than every such job holds, less than a part of it."""

from collections.abc import Iterator
from itertools import pairwise

from service.estimator.device import Device
from service.estimator.result import Estimate
from service.formats.measured.observe import Observation
from service.formats.measured.reading import Place, Quantity, Reading

_NESTED = (Quantity.ALLOCATED, Quantity.RESERVED, Quantity.DEVICE, Quantity.DEVICE_TOTAL_USED)
"""Each is a part of those after it: tensors, what the allocator holds, the process, the GPU."""


def held_bytes(answer: Estimate) -> int:
    """Return what a GPU of the job holds at every moment of it, with its shards and what is offloaded taken off.

    Weights at the worst rank's peak may be gathered ones, and another stage may have fewer: what a stage keeps between steps
    bounds both.
    """
    weights = sum(part.bytes for part in answer.components if part.name == "weights")
    return min([weights, answer.steady_bytes, *(stage.steady_bytes for stage in answer.stages)])


def impossible(observation: Observation, device: Device, *, least_bytes: int) -> Iterator[str]:
    """Yield in words every reading that cannot be of a job that holds ``least_bytes`` on this GPU, to its own resolution."""
    for quantity in _NESTED:
        reading = observation.peaks.get(quantity)
        if reading is None:
            continue
        if reading.low > device.capacity_bytes:
            yield f"{_told(reading)} are more than {device.name} has: {device.capacity_bytes:,}"
        # What was summed up over GPUs, or has no upper end for another reason, is a mean: its value stands for it.
        if (reading.value if reading.high is None else reading.high) < least_bytes:
            yield (
                f"{_told(reading)} are fewer than the {least_bytes:,} bytes that each GPU of such a job holds at every moment: "
                "another model, layout or process was measured"
            )
    yield from _outgrown(observation)


def _outgrown(observation: Observation) -> Iterator[str]:
    """Yield where a whole is smaller than its part in the same place; one that was sampled may have missed its peak."""
    at: dict[Place, dict[Quantity, Reading]] = {}
    for reading in observation.readings:
        if reading.quantity in _NESTED:
            known = at.setdefault(reading.place, {}).get(reading.quantity)
            if known is None or reading.value > known.value:
                at[reading.place][reading.quantity] = reading
    for readings in at.values():
        for part, whole in pairwise(readings[quantity] for quantity in _NESTED if quantity in readings):
            if not whole.sampled and whole.high is not None and whole.high < part.low:
                yield f"{_told(whole)} are fewer than {_told(part)}, which are a part of them"


def _told(reading: Reading) -> str:
    return f"{reading.value:,} {reading.quantity.value.replace('_', ' ')}"
