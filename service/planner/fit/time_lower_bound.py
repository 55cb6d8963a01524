"""Lower bound of a training step's time.

Arithmetic and communication at their peak rates, perfectly overlapped. Good for comparing layouts
of one job, not for predicting one: nothing runs at its peak.
"""

from dataclasses import dataclass

from service.estimator.memory.trained import Shards
from service.estimator.values.device import Device
from service.estimator.values.dtypes import DType
from service.estimator.values.layout import Layout
from service.estimator.values.workload import Checkpointing, Method, TrainWorkload
from service.planner.fit.evaluator import Evaluator

FORWARD_FLOPS = 2
"""Per parameter and token: one multiplication and one addition (arXiv:2001.08361, section 2.1)."""
ACTIVATION_GRADIENT_FLOPS = 2
WEIGHT_GRADIENT_FLOPS = 2
"""Backward multiplies twice per parameter: towards the input and towards the weight; frozen weights
skip the second.
"""
SHARDED_VOLUME = 3
REPLICATED_VOLUME = 2
"""Parameters that a rank sends per step: two all-gathers and a reduce-scatter, or one all-reduce
(arXiv:1910.02054, 7).
"""
DIRECTIONS = 2
"""Link rates of the catalogue count both directions together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rates:
    flops_per_second: int
    bytes_per_second: float | None


def flops_per_parameter_and_token(workload: TrainWorkload) -> int:
    """Return the FLOPs per parameter and token of a training step.

    Forward, backward and recomputation count.
    """
    forward = FORWARD_FLOPS * (2 if workload.activation_checkpointing is Checkpointing.FULL else 1)
    weight_gradient = WEIGHT_GRADIENT_FLOPS if workload.method is Method.FULL else 0
    return forward + ACTIVATION_GRADIENT_FLOPS + weight_gradient


def seconds_per_token(evaluator: Evaluator, workload: TrainWorkload, layout: Layout) -> float:
    """Return the bound of one rank's time per token.

    It is in units of one FLOP per second where the GPU's speed is unknown.
    """
    parameters = evaluator.architecture.parameter_counts()
    rates = _get_rates(evaluator.device, workload.precision.compute_dtype)
    arithmetic = (
        flops_per_parameter_and_token(workload) * parameters.active / rates.flops_per_second
    )
    tokens = (
        workload.micro_batch_size * workload.sequence_length * workload.gradient_accumulation_steps
    )
    if rates.bytes_per_second is None or layout.shards == 1 or workload.method is not Method.FULL:
        return arithmetic
    volume = SHARDED_VOLUME if Shards.from_layout(layout).weights > 1 else REPLICATED_VOLUME
    sent = volume * parameters.total * workload.precision.compute_dtype.bytes_per_element
    return max(arithmetic, sent / rates.bytes_per_second / tokens)


def _get_rates(device: Device, dtype: DType) -> _Rates:
    """Return the GPU's peak rates for a dtype.

    On a GPU without this dtype, those of the next slower one that it has.
    """
    flops = device.peak_flops
    available = [
        flops[name] for name in (dtype.value, DType.FP16.value, DType.FP32.value) if name in flops
    ]
    link = device.link_bytes_per_second
    return _Rates(
        flops_per_second=available[0] if available else 1,
        bytes_per_second=link / DIRECTIONS if available and link else None,
    )
