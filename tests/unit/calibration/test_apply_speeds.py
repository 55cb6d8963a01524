"""Which times a machine's speeds correct, beside what was measured of a question itself."""

from dataclasses import replace

from service.calibration.apply import KnownCalibration, apply_lower_bound, build_corrections
from service.calibration.evidence import Quantity
from service.estimator.values.corrections import SpeedRatios
from tests.unit.calibration.test_apply import CALIBRATION, POINT, of


def test_a_measured_time_comes_before_its_machine() -> None:
    """At the point itself the time is what was measured; at any other the machine's speeds say
    which part of it grows, and the ratio would be counted twice.
    """
    sources = [
        KnownCalibration(name=quantity.value, calibration=replace(CALIBRATION, quantity=quantity))
        for quantity in (Quantity.ALLOCATED, Quantity.STEP_TIME)
    ]
    speeds = SpeedRatios(host=1.5)

    own = build_corrections(sources, POINT, speeds=speeds)
    other = build_corrections(sources, replace(POINT, micro_batch_size=4), speeds=speeds)

    assert (own.bases["step_time"], own.speeds) == ("measured", SpeedRatios())
    assert (other.bases["step_time"], other.speeds, other.step_time_ratio) == (
        "calibrated",
        speeds,
        1.0,
    )
    assert other.calibration == "allocated"


def test_a_machine_alone_corrects_no_bytes() -> None:
    """Where nothing else is known, the answer stays an analytic one with a calibrated time."""
    found = build_corrections([], POINT, speeds=SpeedRatios(gpu=1.1))

    assert found.is_of_time_alone
    assert (found.basis, found.level) == ("analytic", "none")
    assert dict(found.bases) == {"step_time": "calibrated", "prefill_time": "calibrated"}


def test_a_bound_beside_a_machine_names_its_own_source() -> None:
    """Bytes that somebody saw are no part of the machine's speeds."""
    seen = KnownCalibration(name="seen", calibration=of(Quantity.DEVICE))
    machine = build_corrections([], POINT, speeds=SpeedRatios(gpu=1.1))

    found = apply_lower_bound(machine, [seen], replace(POINT, sequence_length=4096))

    assert found is not None
    assert (found.calibration, found.device_at_least_bytes) == ("seen", 10**9)
    assert found.speeds.gpu == 1.1
