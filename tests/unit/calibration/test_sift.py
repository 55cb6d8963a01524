"""What may teach, what only bounds, and what is named with the reason why it teaches nothing."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.calibration.derive import calibrate
from service.calibration.evidence import EXACT_SHARE, Evidence, MeasuredPoint
from service.calibration.sift import filter_evidence
from tests.unit.calibration.builders import BASE, GB, evidence, taught


def test_memory_that_falls_with_the_batch_is_rejected() -> None:
    """A larger batch that needs less was measured wrong, and is named with what it contradicts."""
    small = evidence(256, residual=3 * GB, name="first")
    large = evidence(4096, residual=0, name="second")

    found = filter_evidence([small, large])

    assert [sample.measurement for sample in found.accepted] == ["first"]
    assert [(one.measurement, one.reason) for one in found.rejected] == [
        ("second", "memory would fall while the batch grows: it contradicts first")
    ]


def test_of_many_the_odd_one_goes() -> None:
    """A small size that needs more than three larger ones is what was measured wrong."""
    wrong = evidence(128, residual=5 * GB, name="a wrong one")
    larger = [evidence(size, residual=GB, name=f"{size}") for size in (256, 512, 1024)]

    assert [one.measurement for one in filter_evidence([wrong, *larger]).rejected] == [
        "a wrong one"
    ]


def test_shorter_but_more_sequences_may_need_less() -> None:
    """Attention is quadratic in the sequence, so more tokens in shorter sequences are no
    contradiction.
    """
    long = evidence(4096, residual=GB, name="long")
    point = MeasuredPoint(num_layers=2, micro_batch_size=32, sequence_length=256)
    short = replace(evidence(residual=0, name="short"), point=point)

    assert set(taught(long, short).evidence) == {"long", "short"}


@pytest.mark.parametrize(
    ("change", "reason"),
    [({"transferable": False}, "the kernels were not"), ({"measured": {}}, "nothing was measured")],
)
def test_other_kernels_and_empty_runs_teach_nothing(change: dict[str, object], reason: str) -> None:
    """Only what CUDA would have run may correct an answer for CUDA."""
    broken = replace(evidence(residual=GB), **change)  # type: ignore[arg-type]  # one case a field

    assert calibrate([broken]) is None
    assert filter_evidence([broken]).rejected[0].reason.startswith(reason)


@given(residual=st.integers(-BASE // 2, BASE), least=st.integers(1, 4 * BASE))
def test_running_out_of_memory_changes_no_curve(residual: int, least: int) -> None:
    """It bounds from below what its size and larger ones need; what others taught stays as it
    is.
    """
    measured = evidence(256, residual=residual, name="measured")
    ran_out = Evidence(
        measurement="ran out",
        point=evidence(512).point,
        measured={"all": least},
        predicted={"all": BASE},
        out_of_memory=True,
    )

    found = taught(measured, ran_out)

    assert found.curves == taught(measured).curves
    assert [bound.bytes for bound in found.at_least] == [least]
    assert found.at_most == ()


def test_a_run_that_took_everything_bounds_from_above() -> None:
    """Its reading is what it made do with, and no point of the curve."""
    found = taught(replace(evidence(residual=GB), at_capacity=True))

    assert [bound.bytes for bound in found.at_most] == [BASE + GB]
    assert found.curves == {}


@given(order=st.permutations(range(5)))
def test_the_order_does_not_decide(order: list[int]) -> None:
    """Whoever came first, the same measurements are believed."""
    sizes = ((128, 4 * GB), (256, 0), (512, GB), (1024, 0), (1024, 3 * GB))
    samples = [
        evidence(size, residual=residual, name=f"m{index}")
        for index, (size, residual) in enumerate(sizes)
    ]

    assert filter_evidence([samples[index] for index in order]) == filter_evidence(samples)


@pytest.mark.parametrize("wrong", [512, 200 * BASE])
@given(residual=st.integers(-BASE // 20, BASE // 20))
def test_one_point_has_one_need(wrong: int, residual: int) -> None:
    """A reading that another one of the same point denies is named; the one nearer to the analytic
    answer stays.
    """
    good = evidence(256, residual=residual, name="z good")
    bad = replace(evidence(256, name="a bad"), measured={"backward": wrong})

    found = taught(good, bad)

    assert found.evidence == ("z good",)
    assert [(one.measurement, one.reason) for one in found.rejected] == [
        ("a bad", "the same point was measured otherwise: it contradicts z good")
    ]


@given(
    first=st.integers(-BASE // 50, BASE // 50),
    second=st.integers(-BASE // 50, BASE // 50),
    claimed=st.booleans(),
)
def test_the_interval_of_a_point_holds_all_that_was_read_there(
    first: int, second: int, *, claimed: bool
) -> None:
    """Readings that the spread of their kind explains are put together, and their interval holds
    each of them.
    """
    samples = [
        replace(evidence(256, residual=residual, name=f"m{residual}"), spread=0.05, claimed=claimed)
        for residual in {first, second}
    ]

    exact = taught(*samples).exact[0]
    answer = BASE + exact.residuals.get("backward", 0.0)

    assert all(abs(sample.measured_peak - answer) <= answer * exact.error for sample in samples)
    assert exact.error >= (0.05 if claimed else EXACT_SHARE)
    assert exact.claimed is claimed
