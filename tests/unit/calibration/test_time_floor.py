"""No time that anything learnt makes is below the floor that searches go by."""

from math import exp, log

import pytest

from service.calibration.apply import KnownCalibration, build_corrections
from service.calibration.curve import Curve
from service.calibration.derive import Calibration, Exact
from service.calibration.evidence import Quantity
from service.calibration.pool import Group, Member
from service.calibration.shrinkage import Mean
from service.calibration.time_floor import find_time_floor
from tests.unit.calibration.test_apply import POINT

PLACE = "H200, driver 570.1, torch 2.13, transformers 5.23, peft 0.21"


def make_member(calibration: Calibration, gpu: str = "H200") -> Member:
    """Return a key that was measured on a GPU."""
    group = Group(quantity=calibration.quantity, kind="k", environment=PLACE, family="f")
    return Member(key="key", group=group, calibration=calibration, gpu=gpu)


@pytest.mark.parametrize(
    ("learnt", "ratio"),
    [
        ({}, 1.0),
        ({"exact": (Exact(point=POINT, residuals={"all": log(0.05)}, error=0.1),)}, 0.05),
        ({"exact": (Exact(point=POINT, residuals={"all": log(3)}, error=0.1),)}, 1.0),
        ({"shares": {"all": log(0.8)}, "curves": {"all": Curve(fixed=log(0.5))}}, 0.4),
        ({"curves": {"all": Curve(per_token=-1.0)}}, 1 / 8),
        ({"speeds": {"gpu": Mean(value=log(0.9), variance=0.1, count=1)}}, 0.9),
    ],
)
def test_nothing_learnt_is_faster_than_the_floor(learnt: dict[str, object], ratio: float) -> None:
    """Measured points, what keys and families have in common, curves wherever they lead, machines;
    another GPU's times say nothing.
    """
    calibration = Calibration(
        **{  # type: ignore[arg-type]  # fields by name
            "quantity": Quantity.STEP_TIME,
            "curves": {},
            "relative_error": 0.1,
            "evidence": ("m",),
            **learnt,
        }
    )

    floor = find_time_floor([make_member(calibration)], (), "H200")

    known = KnownCalibration(name="c", calibration=calibration)
    assert floor == pytest.approx(ratio)
    assert build_corrections([known], POINT).step_time_ratio >= floor * (1 - 1e-9)
    assert find_time_floor([make_member(calibration)], (), "A100") == 1.0


def test_a_curve_is_believed_no_farther_than_a_machine() -> None:
    """A line through a few times leads to any at a batch that is a thousand times as large."""
    steep = KnownCalibration(
        name="c",
        calibration=Calibration(
            quantity=Quantity.STEP_TIME,
            curves={"all": Curve(per_token=-1.0)},
            relative_error=0.1,
            evidence=("m",),
        ),
    )

    assert build_corrections([steep], POINT).step_time_ratio == pytest.approx(exp(-log(8)))
