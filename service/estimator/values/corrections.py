"""Calibration results that the estimator adds to its own answer.

They are pure values.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

MIN_PER_MILLE, MAX_PER_MILLE = 450, 1700
"""What a model of another shape needs of one of its size: lowest and highest of 27 published models
and four workloads each. A measurement of this model that differs more is none of it.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstantCorrection:
    """Bytes to add to the analytic bytes.

    ``fixed_bytes + bytes_per_token * tokens of one micro batch + share of the analytic bytes``.
    """

    fixed_bytes: int = 0
    bytes_per_token: float = 0.0
    share: float = 0.0

    def compute_bytes(self, num_tokens: int, analytic_bytes: int = 0) -> int:
        """Return the correction in bytes for one micro batch.

        The micro batch has ``num_tokens``, its analytic answer is ``analytic_bytes``.
        """
        return self.fixed_bytes + round(
            self.bytes_per_token * num_tokens + self.share * analytic_bytes
        )


NO_CORRECTION = InstantCorrection()


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedRatios:
    """Seconds of one machine over those of its GPU's shipped rates.

    ``host`` is of launches, ``gpu`` of what the kernels take.
    """

    host: float = 1.0
    gpu: float = 1.0


SHIPPED_SPEEDS = SpeedRatios()
TIMES = ("step_time", "prefill_time")
"""Quantities that a machine's speeds are about, as bases name them."""


SEEN = "seen"
"""Own quantity of readings that bound the device's bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Corrections:
    """Additive corrections, and the calibration that they come from.

    ``basis`` is ``calibrated`` when they rest on a measurement of another size and ``measured``
    when this very configuration was measured; ``level`` says whose measurements: of this ``point``,
    this ``key``, its ``family``, or of all (``global``). ``instants`` correct allocated bytes,
    ``reserved`` what the allocator reserves beyond them, ``outside`` what lies on the device beside
    the allocator, and ``step_time_ratio`` and ``prefill_time_ratio`` the time.

    ``relative_error`` bounds what remains of the allocated bytes (0.95 level); it is ``conformal``
    where enough measurements were held against it, and then stands alone. ``reserved_error`` and
    ``outside_error`` are conformal ones of those. What conformal ones were chosen from stands
    beside them, for other levels.
    """

    calibration: str
    basis: str = "calibrated"
    level: str = "key"
    num_measurements: int = 0
    instants: Mapping[str, InstantCorrection] = field(default_factory=dict)
    relative_error: float | None = None
    conformal: bool = False
    allocated_errors: tuple[float, ...] = ()
    at_least_bytes: int = 0
    """Bytes that a smaller run of the same kind needed at least before it ran out of memory."""
    reserved: InstantCorrection = NO_CORRECTION
    reserved_error: float | None = None
    reserved_errors: tuple[float, ...] = ()
    reserved_at_most_bytes: int | None = None
    """Reserved bytes that a larger run of the same kind fitted in."""
    outside: InstantCorrection = NO_CORRECTION
    outside_error: float | None = None
    outside_errors: tuple[float, ...] = ()
    step_time_ratio: float = 1.0
    speeds: SpeedRatios = SHIPPED_SPEEDS
    """What measurements on a machine say of its host and its GPU, where no ratio is known."""
    machine_speeds: SpeedRatios = SHIPPED_SPEEDS
    """The same where this very configuration was timed, for what is compared with it."""
    prefill_time_ratio: float = 1.0
    device_at_least_bytes: int = 0
    """Bytes seen on the GPU of a run that was no larger; most of the time nobody looked."""
    num_seen: int = 0
    """Number of imported readings behind ``device_at_least_bytes``."""
    num_imported: int = 0
    """Number of measurements that somebody imported, whose claim about what ran is not verified."""
    bases: Mapping[str, str] = field(default_factory=dict)
    """Basis by corrected quantity: ``measured`` where this very configuration was, else
    ``calibrated``.
    """
    cluster_quantities: tuple[str, ...] = ()
    """Quantities that a named cluster's own measurements correct, as bases name them, and ``seen``
    where its readings bound the device's bytes.
    """
    proven: bool = False
    """Whether a probe measured this very configuration: what it read holds, however far it is from
    the analytic answer.
    """

    @property
    def is_of_time_alone(self) -> bool:
        """Whether the bytes stay as they are."""
        return self.basis == "analytic" and not self.device_at_least_bytes


class ImplausibleCorrectionError(Exception):
    """Correction that would make an answer implausible."""


def check_plausible(
    corrections: Corrections, quantity: str, analytic_bytes: int, answer_bytes: int
) -> None:
    """Raise ImplausibleCorrectionError for an answer too far from the analytic one.

    It may differ by what another model of its size could need.
    """
    if corrections.proven:
        return
    if not analytic_bytes * MIN_PER_MILLE <= answer_bytes * 1000 <= analytic_bytes * MAX_PER_MILLE:
        message = (
            f"calibration {corrections.calibration} would make the {quantity} {answer_bytes:,} B, "
            f"where the analytic answer is {analytic_bytes:,} B: it lies outside of "
            f"{MIN_PER_MILLE / 1000:g} to {MAX_PER_MILLE / 1000:g} times that, which a model of "
            "another shape would need, and is not used"
        )
        raise ImplausibleCorrectionError(message)
