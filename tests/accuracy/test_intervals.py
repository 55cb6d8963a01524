"""Widths that residuals set, and what they cover."""

import re
from random import Random
from typing import Any

import pytest

from service.catalog.gpus import resolve_device
from service.catalog.models import load_architecture, resolve_model
from service.estimator.cache import PlanCache
from service.estimator.estimate import estimate
from service.estimator.memory.answer.allocator_intervals import LARGE_SEGMENT_BYTES
from service.estimator.memory.intervals.ends import HIGHEST, PER_MILLION, get_residual_ends
from service.estimator.memory.intervals.replay_classes import (
    ELSEWHERE_CLASS,
    RANKS_CLASS,
    RECORDED_CLASS,
    VARIANT_CLASS,
)
from service.estimator.memory.intervals.table import WIDTHS
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.losses import Kernels
from service.estimator.values.result import Detail
from service.estimator.values.workload import Lora, Method, TrainWorkload
from tests.accuracy.widths.conformal import (
    NARROWEST,
    NUM_FOLDS,
    Residual,
    Width,
    binomial_range,
    coverage,
    fold_of,
    holds,
    width,
)
from tests.accuracy.widths.report import PAGE

_ROW = re.compile(r"^\| ([^|]+) \| \d+ \| ([+-][\d.]+)% \| ([+-][\d.]+)% \|", re.MULTILINE)
_PLANS = PlanCache()


def _residual(
    ratio: float, group: str = "g", *, low: float | None = None, high: float | None = None
) -> Residual:
    return Residual(
        kind="training", quantity="reserved", group=group, low=low or ratio, high=high or ratio
    )


def test_what_is_drawn_alike_is_covered_as_promised() -> None:
    """Widths of 400 groups hold 95 % of 4,000 others."""
    draw = Random(7)  # noqa: S311 - a fixed series for a test
    ratios = [draw.gauss(1.0, 0.1) for _ in range(4400)]

    widths = width([_residual(ratio, f"set/{index}") for index, ratio in enumerate(ratios[:400])])
    others = [_residual(ratio, f"other/{index}") for index, ratio in enumerate(ratios[400:])]
    share, groups = coverage((residual.group, holds(widths, residual)) for residual in others)

    assert groups == 4000
    assert share == pytest.approx(0.95, abs=0.02)


def test_a_long_series_of_one_model_does_not_decide() -> None:
    """A hundred readings of one group weigh as much as the one of each other group."""
    others = [_residual(1.0, f"g{index}") for index in range(200)]
    series = [_residual(1.5, "series") for _ in range(100)]

    assert width([*others, *series]).high < 1.5


def test_few_groups_give_their_extremes() -> None:
    """Five groups cannot promise more than what they have seen."""
    found = width([_residual(ratio, f"g{ratio}") for ratio in (0.9, 0.95, 1.0, 1.05, 1.2)])

    assert (found.low, found.high, found.num_groups) == (0.9, 1.2, 5)


def test_exact_answers_get_a_narrow_interval_that_is_not_empty() -> None:
    """Where every case is met to the byte there is still some doubt."""
    found = width([_residual(1.0, f"g{index}") for index in range(50)])

    assert (found.low, found.high) == (1 - NARROWEST, 1 + NARROWEST)


def test_a_reading_counts_from_the_end_that_is_nearer() -> None:
    """What its print allows is no error."""
    assert _residual(1.0, low=0.9, high=1.1).ratio == 1.0
    assert _residual(1.0, low=1.1, high=1.2).ratio == 1.1
    assert _residual(1.0, low=0.8, high=0.9).ratio == 0.9


def test_folds_are_fixed_by_names_and_none_is_empty() -> None:
    """A group never measures the widths that it set, today and in a year."""
    folds = [fold_of(f"group {index}") for index in range(200)]

    assert set(folds) == set(range(NUM_FOLDS))
    assert fold_of("traced/llama-3-8b") == fold_of("traced/llama-3-8b")


def test_the_binomial_range_holds_its_level() -> None:
    """Of 100 groups held at 0.95 each, 90 to 99 are covered in 95 % of all draws."""
    low, high = binomial_range(100)

    assert (low, high) == (0.90, 0.99)


def test_coverage_counts_groups_alike() -> None:
    """One group wholly outside of two is a half, however many readings it has."""
    widths = Width(low=0.9, high=1.1, num_groups=1)
    found = [*[_residual(2.0, "out") for _ in range(9)], _residual(1.0, "in")]

    assert coverage((residual.group, holds(widths, residual)) for residual in found) == (0.5, 2)


def test_every_kind_has_a_width_around_one() -> None:
    """The table holds both ends for known kinds, and the pooled ones for a kind without cases."""
    for quantity in ("allocated", "reserved"):
        for kind in ("a kind without cases", "training"):
            low, high = get_residual_ends(kind, quantity)

            assert low < PER_MILLION < high


@pytest.mark.parametrize(
    ("gpu", "kind"),
    [
        ("H100-SXM5-80GB", RECORDED_CLASS),
        ("H100-SXM5-80GB-MIG-1g.10gb", ELSEWHERE_CLASS),
        ("H100-PCIE-80GB", ELSEWHERE_CLASS),
        ("A100-SXM4-80GB", ELSEWHERE_CLASS),
        ("L40S", ELSEWHERE_CLASS),
        ("T4", "training"),
        ("MI300X", "training"),
    ],
)
def test_a_gpu_without_records_adds_what_is_open_about_it_alone(gpu: str, kind: str) -> None:
    """Its allocator is PyTorch's, and what kernels take of it follows from the chip; attention
    before compute capability 8.0 has other kernels, and other vendors have another allocator.
    """
    model = load_architecture(resolve_model("smollm2-135m"))

    answer = estimate(
        model,
        TrainWorkload(sequence_length=256),
        layout=Layout(),
        device=resolve_device(gpu),
        plans=_PLANS,
        detail=Detail.REPLAYED,
    )

    assert answer.reserved_kind == kind
    low, high = get_residual_ends(kind, "reserved")
    found = answer.reserved_interval
    assert found.high == -(-answer.reserved_bytes * high // PER_MILLION)
    assert found.low >= answer.reserved_bytes * low // PER_MILLION


@pytest.mark.parametrize("quantity", ["allocated", "reserved"])
def test_the_page_has_the_ends_that_answers_get(quantity: str) -> None:
    """Every class, to the part per million; one without ends of its own has those of all kinds."""
    page = PAGE.read_text(encoding="utf-8")
    table = page.partition(f"## {quantity.capitalize()} bytes")[2].partition("\n## ")[0]
    rows = {kind: (float(low), float(high)) for kind, low, high in _ROW.findall(table)}

    assert {kind for kind, of in WIDTHS if of == quantity} <= rows.keys()
    for kind, ends in rows.items():
        low, high = get_residual_ends(kind, quantity)
        shipped = (low / PER_MILLION - 1, high / PER_MILLION - 1)
        assert [100 * end for end in shipped] == pytest.approx(list(ends), abs=2e-4)


_NEAR = {
    "an optimizer": {"optimizer": "adamw_8bit"},
    "kernels": {"kernels": Kernels.LIGER},
    "quantised weights": {"method": Method.QLORA, "lora": Lora(rank=16)},
}


@pytest.mark.parametrize("changes", _NEAR.values(), ids=_NEAR)
def test_what_a_recorded_family_runs_otherwise_has_a_class(changes: dict[str, Any]) -> None:
    """On a recorded GPU, with a segment of either pool to either side."""
    model = load_architecture(resolve_model("smollm2-135m"))
    workload = TrainWorkload(sequence_length=256, **changes)

    answer = estimate(
        model,
        workload,
        layout=Layout(),
        device=resolve_device("H100-SXM5-80GB"),
        plans=_PLANS,
        detail=Detail.REPLAYED,
    )

    assert answer.reserved_kind == VARIANT_CLASS
    assert answer.reserved_interval.high >= answer.reserved_bytes + LARGE_SEGMENT_BYTES
    assert answer.reserved_interval.low <= answer.reserved_bytes - LARGE_SEGMENT_BYTES


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"data_parallel": 8}, RANKS_CLASS),
        ({"data_parallel": 8, "zero_stage": 3, "sharding": Sharding.FSDP2}, RANKS_CLASS),
        ({"data_parallel": 8, "zero_stage": 3, "sharding": Sharding.FSDP1}, "sharded"),
    ],
)
def test_ranks_are_judged_by_recorded_ones_where_they_are_like_them(
    changes: dict[str, Any], kind: str
) -> None:
    """DDP's and FSDP2's were recorded, FSDP1's flat parameters were not."""
    model = load_architecture(resolve_model("smollm2-135m"))

    answer = estimate(
        model,
        TrainWorkload(sequence_length=256),
        layout=Layout(**changes),
        device=resolve_device("H100-SXM5-80GB"),
        plans=_PLANS,
        detail=Detail.REPLAYED,
    )

    assert answer.reserved_kind == kind


def test_a_class_of_ranks_borrows_from_what_families_run_otherwise() -> None:
    """Few groups are no evidence that ranks are met better than single GPUs."""
    for level in (0.5, 0.8, 0.95):
        low, high = get_residual_ends(VARIANT_CLASS, "reserved", level)
        own_low, own_high = get_residual_ends(RANKS_CLASS, "reserved", level)

        assert own_low <= low
        assert own_high >= high


def test_what_was_recorded_at_most_holds_elsewhere_at_every_level() -> None:
    """Other GPUs get no narrower interval than the widest recorded one, a wider one where more is
    asked.
    """
    low, high = get_residual_ends(RECORDED_CLASS, "reserved", HIGHEST)
    usual, sure = (get_residual_ends(ELSEWHERE_CLASS, "reserved", level) for level in (0.5, 0.95))

    assert sure[0] < usual[0] <= low
    assert high <= usual[1] < sure[1]
