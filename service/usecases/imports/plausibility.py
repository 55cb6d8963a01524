"""Plausibility of readings: bounds that no run can break.

A reading cannot be more than the GPU has, less than every such job holds, or less than a part of
it.
"""

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
"""Each is a part of those after it: tensors, the allocator's reservation, the process, the GPU."""
_STATES = ("weights", "master_weights", "adapters", "gradients", "optimizer_states")
_ENGINE_QUANTITIES = (Quantity.WEIGHTS, Quantity.KV_POOL, Quantity.CUDA_GRAPHS, Quantity.BUDGET)
_PACKING = 8
"""Weights of one shape differ by less than an eighth: 4 bits with a scale of 16 for each 128 are
4.125, for each 32 with a zero point 4.625 (the ``group_size`` of a GPTQ or AWQ checkpoint); of 47
published logs of vLLM the worst is off by 0.22 %.
"""


def compute_resident_bytes(answer: Estimate) -> int:
    """Return the bytes that a GPU of the job always holds.

    Shards and offloaded parts are taken off. Weights at the worst rank's peak may be gathered ones,
    and another stage may have fewer: what a stage keeps between steps bounds both.
    """
    weights = sum(part.bytes for part in answer.components if part.name == "weights")
    return min([weights, answer.steady_bytes, *(stage.steady_bytes for stage in answer.stages)])


def compute_state_bytes(answer: Estimate) -> int:
    """Return the largest sum of weights, gradients and optimizer states.

    It is the highest of any part of the step, less the tolerance for rounding. They are counted
    tensor by tensor, so that no peak is below it; 0 for a pipeline, where another stage may have
    fewer.
    """
    if len(answer.stages) > 1:
        return 0
    peak_bytes = max(
        (sum(instant.parts.get(name, 0) for name in _STATES) for instant in answer.instants),
        default=0,
    )
    return max(0, peak_bytes - tolerance(peak_bytes))


@dataclass(frozen=True, slots=True, kw_only=True)
class LowerBounds:
    """Lower bounds in bytes of readings at any moment and of peaks."""

    always: int = 0
    peak: int = 0


def compute_lower_bounds(answer: Estimate | None, parsed: Parsed) -> LowerBounds:
    """Return lower bounds of a file's readings.

    A job that ran out of memory may not have had its weights: its bounds are 0.
    """
    if answer is None or parsed.out_of_memory:
        return LowerBounds()
    return LowerBounds(always=compute_resident_bytes(answer), peak=compute_state_bytes(answer))


def find_impossible_readings(
    observation: Observation, device: Device, *, bounds: LowerBounds
) -> Iterator[str]:
    """Yield a message for each reading that breaks a bound.

    A reading breaks it beyond its own resolution.
    """
    for quantity in _NESTED:
        reading = observation.peaks.get(quantity)
        if reading is None:
            continue
        if reading.low > device.capacity_bytes:
            yield (
                f"{_format_reading(reading)} are more than {device.name} has: "
                f"{device.capacity_bytes:,}"
            )
        # What was summed up over GPUs, or has no upper end for another reason, is a mean: its value
        # stands for it.
        high = reading.value if reading.high is None else reading.high
        if high < bounds.always:
            minimum = f"{bounds.always:,} bytes that each GPU of such a job holds at every moment"
            yield (
                f"{_format_reading(reading)} are fewer than the {minimum}: another model, layout "
                "or process was measured"
            )
        elif high < bounds.peak and not reading.sampled:
            minimum = (
                f"{bounds.peak:,} bytes of weights, gradients and optimizer states that each GPU "
                "of such a job holds at once"
            )
            yield (
                f"{_format_reading(reading)} are fewer than the {minimum}: another model, "
                "optimizer, precision or layout was measured"
            )
    yield from _find_outgrown_readings(observation)


def find_engine_mismatches(
    observation: Observation, question: FitQuestion, *, answer: Estimate | None
) -> Iterator[str]:
    """Yield a message for each impossible figure of an engine's log.

    No start of this model on this GPU can have shown it.
    """
    device = question.device
    for quantity in _ENGINE_QUANTITIES:
        reading = observation.peaks.get(quantity)
        if reading is not None and reading.low > device.capacity_bytes:
            yield (
                f"{_format_reading(reading)} are more than {device.name} has: "
                f"{device.capacity_bytes:,}"
            )
    weights = observation.peaks.get(Quantity.WEIGHTS)
    if weights is None or answer is None:
        return
    parts = {part.name: part.bytes for part in answer.components}
    expected = parts.get("weights", 0)
    # Stages hold different shares, and a log may be of any of them.
    min_bytes = 0 if question.layout.pipeline_parallel > 1 else expected - expected // _PACKING
    full_bytes = max(expected, question.architecture.weight_bytes(DType.BF16))
    # SGLang counts what the device has less, and so what libraries take meanwhile.
    max_bytes = full_bytes + full_bytes // _PACKING + parts.get("device_context", 0)
    high = weights.value if weights.high is None else weights.high
    if high < min_bytes or weights.low > max_bytes:
        relation, bound = (
            ("fewer than the", expected) if high < min_bytes else ("more than all the", full_bytes)
        )
        yield (
            f"{_format_reading(weights)} are {relation} {bound:,} bytes of this model's weights: "
            "another model or precision was started"
        )


def _find_outgrown_readings(observation: Observation) -> Iterator[str]:
    """Yield a message where a total is smaller than its part.

    Both are of one place. A sampled total may have missed its peak and is not judged.
    """
    at: dict[Place, dict[Quantity, Reading]] = {}
    for reading in observation.readings:
        if reading.quantity in _NESTED:
            current = at.setdefault(reading.place, {}).get(reading.quantity)
            if current is None or reading.value > current.value:
                at[reading.place][reading.quantity] = reading
    for readings in at.values():
        for part, total in pairwise(
            readings[quantity] for quantity in _NESTED if quantity in readings
        ):
            if not total.sampled and total.high is not None and total.high < part.low:
                yield (
                    f"{_format_reading(total)} are fewer than {_format_reading(part)}, which are a "
                    "part of them"
                )


def _format_reading(reading: Reading) -> str:
    return f"{reading.value:,} {reading.quantity.value.replace('_', ' ')}"
