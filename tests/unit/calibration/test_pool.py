"""Keys of a family learn from each other, families too, and unrelated ones never."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.calibration.derive import Prior, calibrate
from service.calibration.evidence import Quantity
from service.calibration.pool import Group, Level, Member, build_pools, find_pool
from service.estimator.memory.intervals.ends import find_conformal_width
from tests.unit.calibration.builders import BASE, evidence

GROUP = Group(
    quantity=Quantity.ALLOCATED, kind="training", environment="torch 2.13", family="llama"
)


def member(key: str, *shares: float, group: Group = GROUP, parent: Prior | None = None) -> Member:
    """Return a key whose sizes are each off by a share of the answer."""
    samples = [
        evidence(256 * (index + 1), residual=round(BASE * share), name=f"{key} {index}")
        for index, share in enumerate(shares)
    ]
    calibration = calibrate(samples, parent)
    assert calibration is not None
    return Member(key=key, group=group, calibration=calibration)


def share_of(*members: Member, group: Group = GROUP) -> float:
    """Return what a key without measurements gets of its group."""
    pool = find_pool(build_pools(members), group)
    return 0.0 if pool is None else pool.shares.get("backward", 0.0)


def test_one_key_speaks_for_itself() -> None:
    """What a single key shows is not passed on."""
    assert share_of(member("a", 0.1, 0.1)) == 0


def test_keys_that_agree_speak_for_their_family() -> None:
    """Three keys that are all a tenth off make the fourth a tenth larger."""
    found = share_of(*(member(key, 0.1) for key in "abc"))

    assert found == pytest.approx(0.1, abs=0.001)


def test_keys_that_disagree_speak_for_nobody() -> None:
    """Where keys of a family scatter around nothing, nothing is passed on."""
    assert share_of(member("a", 0.1), member("b", -0.1)) == pytest.approx(0, abs=1e-9)


def test_families_that_agree_speak_for_all() -> None:
    """A family that nobody measured rests on the others, once two of them agree."""
    other, third = (replace(GROUP, family=name) for name in ("gpt2", "qwen3"))

    one = share_of(*(member(key, 0.1) for key in "abc"), group=third)
    two = share_of(member("a", 0.1), member("b", 0.1, group=other), group=third)

    assert one == 0
    assert two == pytest.approx(0.1, abs=0.001)


@pytest.mark.parametrize(
    "change", [{"kind": "serving"}, {"environment": "torch 2.14"}, {"quantity": Quantity.RESERVED}]
)
def test_unrelated_keys_never_change(change: dict[str, str]) -> None:
    """Another kind of run, release or quantity learns nothing, however much is measured."""
    members = [member(key, 0.1) for key in "abc"]

    assert share_of(*members, group=replace(GROUP, **change)) == 0  # type: ignore[arg-type]  # one case a field


@given(order=st.permutations(range(4)))
def test_the_order_of_the_keys_does_not_matter(order: list[int]) -> None:
    """The same keys make the same pools."""
    families = (GROUP, GROUP, replace(GROUP, family="gpt2"), replace(GROUP, family="gpt2"))
    members = [member(f"k{index}", 0.05 * index, group=families[index]) for index in range(4)]

    assert build_pools([members[index] for index in order]) == build_pools(members)


def test_widths_wait_for_enough_keys() -> None:
    """From 19 keys on, the width of a key that nobody measured is what 95 % of the next ones stay
    within.
    """
    few, enough = (
        [member(f"{index:02}", 0.001 * (index % 5)) for index in range(count)] for count in (18, 19)
    )

    narrow, wide = (build_pools(members)[GROUP] for members in (few, enough))

    assert narrow.half_width is None
    assert wide.half_width == pytest.approx(0.004, abs=1e-5)
    assert (wide.level, wide.num_keys, wide.num_measurements) == (Level.FAMILY, 19, 19)


def test_sizes_of_one_key_tell_of_its_other_sizes() -> None:
    """Ten keys of two sizes each hold twenty measurements out, each against the other of its
    key.
    """
    pool = build_pools([member(f"{index}", 0.1, 0.1) for index in range(10)])[GROUP]

    assert pool.half_width is None
    assert pool.key_half_width == pytest.approx(0, abs=0.001)


@given(sizes=st.lists(st.floats(0, 1), min_size=19, max_size=60))
def test_a_width_holds_its_share_of_one_more(sizes: list[float]) -> None:
    """At least 95 % of n + 1 are held by the smallest such width, and by no narrower one."""
    width = find_conformal_width(sizes)

    assert width is not None
    held = sum(size <= width for size in sizes)
    assert held >= 0.95 * (len(sizes) + 1)
    assert sum(size < width for size in sizes) < 0.95 * (len(sizes) + 1)
