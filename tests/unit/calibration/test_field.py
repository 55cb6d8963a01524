"""What was seen of whole GPUs bounds answers from below, and does nothing else."""

from hypothesis import given
from hypothesis import strategies as st

from service.calibration.apply import KnownCalibration, apply_lower_bound
from service.calibration.derive import Calibration
from service.calibration.evidence import RESERVED_SPREAD, MeasuredPoint
from service.calibration.field import MAX_RATIO, DeviceReading, derive_bounds, get_lower_bound
from service.estimator.estimate import estimate
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.values.device import Device
from service.estimator.values.layout import Layout
from service.estimator.values.precision import POLICIES
from service.estimator.values.workload import TrainWorkload
from tests.job_builders import TINY_LLAMA

GB = 10**9
MODEL = architecture_from_config(TINY_LLAMA)
DEVICE = Device(name="A100-SXM4-80GB", capacity_bytes=80 * GB, usable_bytes=79 * GB)
TRAIN = TrainWorkload(sequence_length=64, precision=POLICIES["bf16"])


def at(num_tokens: int) -> MeasuredPoint:
    """Return a point of one sequence."""
    return MeasuredPoint(num_layers=2, micro_batch_size=1, sequence_length=num_tokens)


def look(
    num_bytes: int, *, name: str = "m1", num_tokens: int = 64, whole: bool = False
) -> DeviceReading:
    """Return something that was seen where the analytic answer is 10 GB."""
    return DeviceReading(
        measurement=name,
        point=at(num_tokens),
        bytes=num_bytes,
        predicted=10 * GB,
        is_full_peak=whole,
    )


def learnt(*seen: DeviceReading) -> Calibration:
    """Return what was seen, which must be something."""
    found = derive_bounds(seen)
    assert found is not None
    return found


def test_a_larger_run_needs_at_least_as_much() -> None:
    """A bound holds where it was seen and at every larger point, and says nothing of smaller
    ones.
    """
    found = learnt(look(9 * GB), look(11 * GB, name="m2", num_tokens=128))

    assert [get_lower_bound(found, at(tokens)) for tokens in (32, 64, 127, 128, 256)] == [
        0,
        9 * GB,
        9 * GB,
        11 * GB,
        11 * GB,
    ]
    assert found.evidence == ("m1", "m2")


def test_bounds_teach_no_curve_and_no_mean() -> None:
    """Nothing of a sum tells which part of it was off, so nothing moves but the sum."""
    found = learnt(look(12 * GB))

    assert (found.curves, found.means, found.exact, found.left_out) == ({}, {}, (), ())


def test_what_a_probe_never_held_was_somebody_elses() -> None:
    """A probe saw the peak of a larger run: a look that is higher contradicts it, and is named with
    it.
    """
    probe = look(10 * GB, name="probe", num_tokens=128, whole=True)
    found = learnt(look(12 * GB), look(round(10 * GB * (1 + RESERVED_SPREAD)), name="m2"), probe)

    assert found.evidence == ("m2",)
    [refused] = found.rejected
    assert refused.measurement == "m1"
    assert "more than probe held at its peak, 10,000,000,000" in refused.reason


def test_a_smaller_probe_bounds_nothing_above_it() -> None:
    """What a smaller run made do with says nothing of a larger one."""
    probe = look(8 * GB, name="probe", num_tokens=32, whole=True)

    assert learnt(look(12 * GB), probe).rejected == ()


def test_a_probe_alone_teaches_its_parts_elsewhere() -> None:
    """Without anything seen in the field there is nothing to bound."""
    assert derive_bounds([look(10 * GB, whole=True)]) is None


@given(
    st.lists(st.integers(min_value=1, max_value=40 * GB), min_size=1, max_size=5),
    st.integers(1, 256),
)
def test_a_bound_never_lowers_an_answer(sizes: list[int], num_tokens: int) -> None:
    """Whatever was seen, the bytes at least are no fewer than without any one of the looks, and
    impossible ones are named.
    """
    seen = [look(size, name=f"m{index}", num_tokens=64 + index) for index, size in enumerate(sizes)]
    found = learnt(*seen)

    for one in seen:
        fewer = derive_bounds([other for other in seen if other is not one])
        assert get_lower_bound(found, at(num_tokens)) >= (
            0 if fewer is None else get_lower_bound(fewer, at(num_tokens))
        )
    assert {one.measurement for one in found.rejected} == {
        one.measurement for one in seen if one.bytes > 10 * GB * MAX_RATIO
    }


@given(st.integers(min_value=1, max_value=90 * GB))
def test_only_the_device_is_raised(num_bytes: int) -> None:
    """An answer below what was seen is raised to it, up to what the GPU has; allocated and reserved
    bytes stay.
    """
    calibration = learnt(
        DeviceReading(measurement="m1", point=at(64), bytes=num_bytes, predicted=num_bytes)
    )
    corrections = apply_lower_bound(
        None, [KnownCalibration(name="field", calibration=calibration)], at(64)
    )
    plain = estimate(MODEL, TRAIN, layout=Layout(), device=DEVICE)
    found = estimate(MODEL, TRAIN, layout=Layout(), device=DEVICE, corrections=corrections)

    raised = max(plain.device_bytes, min(num_bytes, DEVICE.usable_bytes))
    assert found.device_bytes == raised == sum(part.bytes for part in found.components)
    assert (found.allocated_bytes, found.reserved_bytes) == (
        plain.allocated_bytes,
        plain.reserved_bytes,
    )
    assert found.device_interval.low <= raised <= found.device_interval.high
    rested = (
        ("calibrated", "field", "key", 1)
        if raised > plain.device_bytes
        else ("analytic", None, "none", 0)
    )
    assert (
        found.basis,
        found.calibration,
        found.calibration_level,
        found.num_measurements,
    ) == rested
    assert bool(found.warnings) == (raised > plain.device_bytes)


def test_a_smaller_question_is_answered_as_ever() -> None:
    """A bound that a point does not reach is no correction of it."""
    known = KnownCalibration(name="field", calibration=learnt(look(12 * GB)))

    assert apply_lower_bound(None, [known], at(32)) is None
