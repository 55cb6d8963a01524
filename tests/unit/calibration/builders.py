"""Evidence about one key, and what is left of it."""

from service.calibration.derive import Calibration, calibrate, compute_corrections
from service.calibration.evidence import Evidence, MeasuredPoint

GB = 10**9
BASE = 10 * GB


def at(num_tokens: int, num_layers: int = 2) -> MeasuredPoint:
    """Return a point of one sequence."""
    return MeasuredPoint(num_layers=num_layers, micro_batch_size=1, sequence_length=num_tokens)


def evidence(
    num_tokens: int = 256,
    *,
    residual: int = 0,
    predicted: int = BASE,
    name: str = "m1",
    num_layers: int = 2,
) -> Evidence:
    """Return one measurement whose backward is ``residual`` bytes above the analytic answer."""
    return Evidence(
        measurement=name,
        point=at(num_tokens, num_layers),
        measured={"backward": predicted + residual},
        predicted={"backward": predicted},
    )


def taught(*samples: Evidence) -> Calibration:
    """Return what samples teach, which must be something."""
    calibration = calibrate(samples)
    assert calibration is not None
    return calibration


def error_on(calibration: Calibration, sample: Evidence) -> float:
    """Return measured minus corrected bytes of a sample, answered by the curve."""
    added = compute_corrections(calibration.curves, calibration.shares, (), sample)
    return sample.residual("backward") - added["backward"]
