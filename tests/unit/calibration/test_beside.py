"""A second size of one measurement: it teaches its key as any size does, and a measurement is
counted once.
"""

from dataclasses import replace

import pytest

from service.calibration.derive import calibrate
from service.calibration.evidence import EXACT_SHARE, Evidence
from service.calibration.sift import filter_evidence
from tests.unit.calibration.builders import at, evidence, taught

PER_TOKEN = 1_000_000


def sizes(measurement: str, *, off: int = 0, whole: int = 4096) -> tuple[Evidence, Evidence]:
    """Return a measurement that is off by so much for each token, and by ``off``, with the half
    size that it ran beside.
    """
    asked = evidence(whole, residual=off + PER_TOKEN * whole, name=measurement)
    half = evidence(whole // 2, residual=off + PER_TOKEN * whole // 2, name=measurement)
    return asked, replace(half, is_extra_size=True)


def test_one_measurement_of_two_sizes_finds_a_line() -> None:
    """What a token adds is seen, where one size would have moved all sizes by as much."""
    asked, half = sizes("m1")
    curve = taught(asked, half).curves["backward"]

    assert curve.at(at(1024)) == pytest.approx(PER_TOKEN * 1024, rel=0.05)
    assert taught(asked).curves["backward"].at(at(1024)) == pytest.approx(
        PER_TOKEN * 4096, rel=0.05
    )


def test_both_points_are_known_themselves() -> None:
    """A question at the half size was measured, too; and its own doubt is what is left of the line
    at either.
    """
    asked, half = sizes("m1")
    calibration = taught(asked, half)

    assert {known.point for known in calibration.exact} == {asked.point, half.point}
    assert calibration.relative_error >= EXACT_SHARE


def test_a_measurement_is_counted_once() -> None:
    """By what it is named, by what it says of keys alike, and by how far it was from its answer:
    sizes of one are no draws.
    """
    calibration = taught(*sizes("m1"), *sizes("m2", whole=8192))
    asked_alone = taught(sizes("m1")[0], sizes("m2", whole=8192)[0])

    assert calibration.evidence == ("m1", "m2")
    assert calibration.means == asked_alone.means
    assert [held.measurement for held in calibration.left_out] == ["m1", "m2"]


def test_a_measurement_is_held_against_others_only() -> None:
    """Its own half size would foretell it too well: nobody has that who asks before anything is
    measured.
    """
    (first, half), (other, _) = sizes("m1", off=10**9), sizes("m2", whole=8192)
    with_half = {held.measurement: held for held in taught(first, half, other).left_out}
    without = {held.measurement: held for held in taught(first, other).left_out}

    assert with_half["m1"] == without["m1"]
    assert calibrate([first, half]) is not None
    assert taught(first, half).left_out[0].alone


def test_a_measurement_that_is_not_believed_takes_its_sizes_with_it() -> None:
    """It contradicts two others of its size; what it ran beside it contradicts nobody, and came of
    the same run.
    """
    asked, half = sizes("m3", off=-(10**9))
    good = [sizes(name)[0] for name in ("m1", "m2")]
    sifted = filter_evidence([asked, half, *good])

    assert [sample.measurement for sample in sifted.accepted] == ["m1", "m2"]
    assert [rejected.measurement for rejected in sifted.rejected] == ["m3"]


def test_a_size_that_contradicts_its_own_measurement_goes_alone() -> None:
    """Memory does not fall with tokens: the sample that contradicts most goes, as among any."""
    asked, half = sizes("m1")
    heavy = replace(half, measured={name: 10 * value for name, value in asked.measured.items()})
    good = sizes("m2")[0]
    sifted = filter_evidence([asked, heavy, good])

    assert heavy not in sifted.accepted
    assert {sample.measurement for sample in sifted.accepted} == {"m1", "m2"}
