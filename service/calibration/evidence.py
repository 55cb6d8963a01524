"""Measurements paired with the analytic answers to the same questions.

Everything that is learnt rests on them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from math import exp, log

ROUNDING_BYTES = 512
"""The caching allocator rounds every block up to this (pytorch c10/cuda/CUDACachingAllocator.cpp).
"""
EXACT_SHARE = 0.001
"""Relative error below which an analytic answer is exact.

What is left is rounding, step counters and generator states.
"""
RESERVED_SPREAD = (39_026 - 35_926) / (39_026 + 35_926)
"""Half the range of reserved peaks of one request on one H100, as a share: only the history of
warm-up differed (SGLang pull request 38172, 35,926 to 39,026 MiB).
"""
SEGMENT_BYTES = 20 * 1024**2
"""Bytes that the caching allocator takes at once for a medium-sized request (kLargeBuffer,
c10/cuda/CUDACachingAllocator.cpp): other requests differ by as much.
"""
SEGMENT_STEP_BYTES = 2 * 1024**2
"""Every segment is a multiple of this (kSmallBuffer and kRoundLarge there), so that repeated runs
differ by one or not at all. A probe makes its history of requests itself, from an empty process on:
the reserved peaks of 28 configurations that an H100 and an H200 both ran are the same to the byte.
"""


class Quantity(StrEnum):
    """Quantities that calibrations correct.

    ``device`` is the memory outside of the allocator; times are learnt as ratios, ``step_time`` of
    serving is that of a decode step.
    """

    ALLOCATED = "allocated"
    RESERVED = "reserved"
    DEVICE = "device"
    STEP_TIME = "step_time"
    PREFILL_TIME = "prefill_time"

    @property
    def is_ratio(self) -> bool:
        """Whether residuals are logarithms of ratios, not differences.

        The ratio is measured over predicted.
        """
        return self in {Quantity.STEP_TIME, Quantity.PREFILL_TIME}


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredPoint:
    """Position of a measurement on its calibration curve.

    ``num_tokens`` are those of one micro-batch (serving: with their output).
    """

    num_layers: int
    micro_batch_size: int
    sequence_length: int
    output_tokens: int = 0
    num_gpus: int = 1

    @property
    def num_tokens(self) -> int:
        """Tokens of one micro-batch."""
        return self.micro_batch_size * (self.sequence_length + self.output_tokens)

    def reaches(self, other: "MeasuredPoint") -> bool:
        """Return whether this point is nowhere smaller than ``other``.

        Such a point cannot need less.
        """
        mine = (self.num_layers, self.micro_batch_size, self.sequence_length, self.output_tokens)
        theirs = (
            other.num_layers,
            other.micro_batch_size,
            other.sequence_length,
            other.output_tokens,
        )
        return self.num_gpus == other.num_gpus and all(
            a >= b for a, b in zip(mine, theirs, strict=True)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """A measurement and the analytic answer to it, by part.

    Parts are the instants of allocated bytes, and one part of any other quantity: bytes, or
    nanoseconds of a step.

    ``transferable``: kernels were those that CUDA would choose. ``extrapolated``: slices were run,
    not the model itself. ``out_of_memory``: the run ended before its peak, so that ``measured`` is
    a lower bound. ``at_capacity``: it ran through and took all that there was, so that ``measured``
    is an upper bound. ``noise``: the share by which repeated measurements differ, where the
    measurement itself says so. ``claimed``: somebody says that this was what ran. ``spread``: the
    share by which answers of this kind are off, as the analytic interval has it. ``is_extra_size``:
    another size that the measurement ran the whole model at. It teaches what any size teaches, but
    a measurement is counted once.
    """

    measurement: str
    point: MeasuredPoint
    measured: Mapping[str, int]
    predicted: Mapping[str, int]
    quantity: Quantity = Quantity.ALLOCATED
    transferable: bool = True
    extrapolated: bool = False
    out_of_memory: bool = False
    at_capacity: bool = False
    noise: float = field(default=0.0)
    claimed: bool = False
    spread: float = 0.0
    is_extra_size: bool = False
    speeds: Mapping[str, float] = field(default_factory=dict)
    """Of a time: the side that explains it, ``host`` or ``gpu``, and the logarithm of its ratio."""

    @property
    def parts(self) -> tuple[str, ...]:
        """Parts that were both measured and predicted.

        They come in the order of the measurement.
        """
        return tuple(
            name
            for name in self.measured
            if self.predicted.get(name, 0) > 0 and self.measured[name] > 0
        )

    @property
    def is_one_sided(self) -> bool:
        """Whether the measurement is only a bound."""
        return self.out_of_memory or self.at_capacity

    def residual(self, part: str) -> float:
        """Return measured minus predicted bytes.

        For a step time it is the logarithm of their ratio.
        """
        if self.quantity.is_ratio:
            return log(self.measured[part] / self.predicted[part])
        return self.measured[part] - self.predicted[part]

    def scale(self, part: str) -> float:
        """Return the denominator of a residual's share."""
        return 1.0 if self.quantity.is_ratio else float(self.predicted[part])

    def share(self, part: str) -> float:
        """Return the residual as a share of the answer."""
        return self.residual(part) / self.scale(part)

    def apply_correction(self, part: str, correction: float) -> float:
        """Return the answer with a correction in the residual's unit."""
        if self.quantity.is_ratio:
            return self.predicted[part] * exp(correction)
        return self.predicted[part] + correction

    def doubt(self, part: str) -> float:
        """Return the uncertainty of a residual, in its own unit.

        A smaller difference means nothing.
        """
        if self.quantity.is_ratio:
            return max(self.noise, EXACT_SHARE)
        share, least = EXACT_SHARE, ROUNDING_BYTES
        if self.quantity is Quantity.RESERVED:
            share, least = (RESERVED_SPREAD if self.claimed else EXACT_SHARE), SEGMENT_BYTES
        return max(float(least), self.measured[part] * max(share, self.noise))

    def contradicts(self, other: "Evidence") -> bool:
        """Return whether another measurement of the same point disagrees.

        Disagreement is more than resolution and the spread of its kind explain.
        """
        if (
            self.point != other.point
            or self.quantity.is_ratio
            or self.extrapolated
            or other.extrapolated
        ):
            return False
        return any(
            abs(self.measured[name] - other.measured[name])
            > self.doubt(name)
            + other.doubt(name)
            + max(self.spread, other.spread) * self.predicted[name]
            for name in self.parts
            if name in other.parts
        )

    @property
    def distance(self) -> float:
        """Absolute log ratio of the measured and the analytic peak.

        Half as much is as far as twice as much.
        """
        return abs(log(self.measured_peak / self.peak()))

    def peak(self, corrections: Mapping[str, float] | None = None) -> float:
        """Return the highest corrected part; without corrections the analytic peak."""
        part_corrections = corrections or {}
        return max(
            self.apply_correction(name, part_corrections.get(name, 0.0)) for name in self.parts
        )

    @property
    def measured_peak(self) -> int:
        """The highest measured part."""
        return max(self.measured[name] for name in self.parts)


def tolerance(measured_bytes: int) -> int:
    """Return the allocated bytes below which differences are insignificant."""
    return max(ROUNDING_BYTES, round(measured_bytes * EXACT_SHARE))
