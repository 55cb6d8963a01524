"""What calibration learnt, as a pure value that the estimator adds to its own answer."""

from collections.abc import Mapping
from dataclasses import dataclass, field

LEAST_PER_MILLE, MOST_PER_MILLE = 450, 1700
"""What a model of another shape needs of one of its size: lowest and highest of 27 published models and four workloads each.
A measurement of this model that differs more is none of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstantCorrection:
    """Bytes to add to the analytic bytes: ``fixed_bytes + bytes_per_token * tokens of one micro batch + share of them``."""

    fixed_bytes: int = 0
    bytes_per_token: float = 0.0
    share: float = 0.0

    def at(self, num_tokens: int, analytic_bytes: int = 0) -> int:
        """Return the correction for one micro batch of ``num_tokens`` whose analytic answer is ``analytic_bytes``."""
        return self.fixed_bytes + round(self.bytes_per_token * num_tokens + self.share * analytic_bytes)


NOTHING = InstantCorrection()


@dataclass(frozen=True, slots=True, kw_only=True)
class Corrections:
    """Additive corrections, and the calibration that they come from.

    ``basis`` is ``calibrated`` when they rest on a measurement of another size and ``measured`` when this very
    configuration was measured; ``level`` says whose measurements: of this ``point``, this ``key``, its ``family``, or of all
    (``global``). ``instants`` correct allocated bytes, ``reserved`` what the allocator reserves beyond them, ``outside`` what
    lies on the device beside the allocator, and ``step_time_ratio`` the time.

    ``relative_error`` bounds what remains of the allocated bytes (0.95 level); it is ``conformal`` where enough measurements
    were held against it, and then stands alone. ``reserved_error`` and ``outside_error`` are conformal ones of those. What
    conformal ones were chosen from stands beside them, for other levels.
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
    """What a smaller run of the same kind needed at least before it ran out of memory."""
    reserved: InstantCorrection = NOTHING
    reserved_error: float | None = None
    reserved_errors: tuple[float, ...] = ()
    reserved_at_most_bytes: int | None = None
    """What a larger run of the same kind made do with."""
    outside: InstantCorrection = NOTHING
    outside_error: float | None = None
    outside_errors: tuple[float, ...] = ()
    step_time_ratio: float = 1.0
    step_time_error: float | None = None
    device_at_least_bytes: int = 0
    """What was seen on the GPU of a run that was no larger, at most times nobody looked."""
    num_seen: int = 0
    """How many imported readings that rests on."""
    num_imported: int = 0
    """How many of the measurements somebody brought, who alone says what ran."""
    proven: bool = False
    """Whether a probe measured this very configuration: what it read holds, however far it is from the analytic answer."""


class ImplausibleCorrectionError(Exception):
    """A correction would make an answer of something that cannot be."""


def require_plausible(corrections: Corrections, what: str, analytic_bytes: int, answer_bytes: int) -> None:
    """Raise ImplausibleCorrectionError where an answer is further from the analytic one than another model's could be."""
    if corrections.proven:
        return
    if not analytic_bytes * LEAST_PER_MILLE <= answer_bytes * 1000 <= analytic_bytes * MOST_PER_MILLE:
        message = (
            f"calibration {corrections.calibration} would make the {what} {answer_bytes:,} B, where the analytic answer is "
            f"{analytic_bytes:,} B: it lies outside of {LEAST_PER_MILLE / 1000:g} to {MOST_PER_MILLE / 1000:g} times that, "
            "which a model of another shape would need, and is not used"
        )
        raise ImplausibleCorrectionError(message)
