"""What no run of a question can have shown: more than the GPU has, less than every such job holds, less than a part of it."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from service.calibration.evidence import tolerance
from service.estimator.values.device import Device
from service.estimator.values.dtypes import DType
from service.estimator.values.result import Estimate
from service.formats.measured.observe import Observation
from service.formats.measured.reading import Parsed, Place, Quantity, Reading
from service.usecases.questions.fit import FitQuestion

_NESTED = (Quantity.ALLOCATED, Quantity.RESERVED, Quantity.DEVICE, Quantity.DEVICE_TOTAL_USED)
"""Each is a part of those after it: tensors, what the allocator holds, the process, the GPU."""
_STATES = ("weights", "master_weights", "adapters", "gradients", "optimizer_states")
_OF_ENGINES = (Quantity.WEIGHTS, Quantity.KV_POOL, Quantity.CUDA_GRAPHS, Quantity.BUDGET)
_PACKING = 8
"""Weights of one shape differ by less than an eighth: 4 bits with a scale of 16 for each 128 are 4.125, for each 32 with a zero
point 4.625 (the ``group_size`` of a GPTQ or AWQ checkpoint); of 47 published logs of vLLM the worst is off by 0.22 %."""


def held_bytes(answer: Estimate) -> int:
    """Return what a GPU of the job holds at every moment of it, with its shards and what is offloaded taken off.

    Weights at the worst rank's peak may be gathered ones, and another stage may have fewer: what a stage keeps between steps
    bounds both.
    """
    weights = sum(part.bytes for part in answer.components if part.name == "weights")
    return min([weights, answer.steady_bytes, *(stage.steady_bytes for stage in answer.stages)])


def states_bytes(answer: Estimate) -> int:
    """Return the most that weights, gradients and optimizer states take together in any part of the step, rounding taken off.

    They are counted tensor by tensor, so that no peak is below it; 0 of a pipeline, where another stage may have fewer.
    """
    if len(answer.stages) > 1:
        return 0
    most = max((sum(instant.parts.get(name, 0) for name in _STATES) for instant in answer.instants), default=0)
    return max(0, most - tolerance(most))


@dataclass(frozen=True, slots=True, kw_only=True)
class Least:
    """The bytes below which nothing can be that was read at any moment, and below which no peak can be."""

    always: int = 0
    peak: int = 0


def least_of(answer: Estimate | None, parsed: Parsed) -> Least:
    """Return the least that readings of a file can be; a job that ran out of memory may not have had its weights."""
    if answer is None or parsed.out_of_memory:
        return Least()
    return Least(always=held_bytes(answer), peak=states_bytes(answer))


def impossible(observation: Observation, device: Device, *, least: Least) -> Iterator[str]:
    """Yield in words every reading that cannot be of a job that holds at least so much on this GPU, to its own resolution."""
    for quantity in _NESTED:
        reading = observation.peaks.get(quantity)
        if reading is None:
            continue
        if reading.low > device.capacity_bytes:
            yield f"{_told(reading)} are more than {device.name} has: {device.capacity_bytes:,}"
        # What was summed up over GPUs, or has no upper end for another reason, is a mean: its value stands for it.
        high = reading.value if reading.high is None else reading.high
        if high < least.always:
            held = f"{least.always:,} bytes that each GPU of such a job holds at every moment"
            yield f"{_told(reading)} are fewer than the {held}: another model, layout or process was measured"
        elif high < least.peak and not reading.sampled:
            held = f"{least.peak:,} bytes of weights, gradients and optimizer states that each GPU of such a job holds at once"
            yield f"{_told(reading)} are fewer than the {held}: another model, optimizer, precision or layout was measured"
    yield from _outgrown(observation)


def unlike(observation: Observation, asked: FitQuestion, *, answer: Estimate | None) -> Iterator[str]:
    """Yield in words what an engine says of its start that no start of this model on this GPU can have shown."""
    device = asked.device
    for quantity in _OF_ENGINES:
        reading = observation.peaks.get(quantity)
        if reading is not None and reading.low > device.capacity_bytes:
            yield f"{_told(reading)} are more than {device.name} has: {device.capacity_bytes:,}"
    weights = observation.peaks.get(Quantity.WEIGHTS)
    if weights is None or answer is None:
        return
    parts = {part.name: part.bytes for part in answer.components}
    expected = parts.get("weights", 0)
    # Stages hold different shares, and a log may be of any of them.
    least = 0 if asked.layout.pipeline_parallel > 1 else expected - expected // _PACKING
    whole = max(expected, asked.architecture.weight_bytes(DType.BF16))
    # SGLang counts what the device has less, and so what libraries take meanwhile.
    most = whole + whole // _PACKING + parts.get("device_context", 0)
    high = weights.value if weights.high is None else weights.high
    if high < least or weights.low > most:
        few, bound = ("fewer than the", expected) if high < least else ("more than all the", whole)
        yield f"{_told(weights)} are {few} {bound:,} bytes of this model's weights: another model or precision was started"


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
