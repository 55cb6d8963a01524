"""What the estimator has reached against published readings, so that no change makes it worse."""

from dataclasses import replace

import pytest

from tests.accuracy.found import published
from tests.accuracy.pages import make_published_page
from tests.accuracy.published.rows import published_cases, skipped_rows
from tests.accuracy.published.summary import (
    PublishedSummary,
    labels,
    pooled,
    summaries,
    weighted_quantile,
)
from tests.accuracy.published.translate.__main__ import translators

FLOORS = {
    ("vllm", "weights_memory", "%"): (0.0001, 0.0005),
    ("vllm", "kv_cache_memory", "%"): (0.002, 0.004),
    ("vllm", "kv_cache_tokens", "%"): (0.002, 0.004),
    ("vllm", "max_concurrency", "%"): (0.002, 0.004),
    ("sglang", "kv_cache_memory", "%"): (0.004, 0.012),
    # One run of four, which predicts further tokens, has 48 MiB of 6.3 GB more.
    ("megatron", "memory_allocated_steady", "%"): (0.0005, 0.008),
    ("megatron", "max_memory_allocated", "%"): (0.05, 0.08),
    ("megatron", "memory_allocated_steady", "MiB"): (5, 20),
    # Experts are routed evenly, and GB200's older releases had smaller workspaces.
    ("megatron", "max_memory_allocated", "MiB"): (10, 45),
}
"""Median and 90th percentile of the error: what is reached now, rounded up."""
OPEN = {"vllm_gpt_oss_20b_a100": 0.009}
"""Rows whose missing term is not known, which set no floor, and their largest error."""
POOLED = {
    ("inference",): (0.02, 0.12, 0.02),
    ("training", "adapters"): (0.05, 0.21, 0.05),
}
"""Median, 90th percentile and mean signed error over everything that was read of some classes."""
CASES = {"vllm": 180, "megatron": 320, "inference": 260, "training": 40, "adapters": 80}
"""Readings that were answered when these floors were set."""
TIMES = (0.19, 0.39)
"""Median and 90th percentile over all published times, each case alike."""


def _line(kind: tuple[str, str, str]) -> PublishedSummary:
    scores = published().memory
    settled = tuple(score for score in scores.scores if score.case not in OPEN)
    return next(
        line
        for line in summaries(replace(scores, scores=settled))
        if (line.scores_as, line.quantity, line.unit) == kind
    )


@pytest.mark.parametrize("kind", FLOORS)
def test_errors_stay_below_their_floor(kind: tuple[str, str, str]) -> None:
    """No change may make a published quantity worse than what has been reached."""
    median, p90 = FLOORS[kind]

    line = _line(kind)

    assert line.median <= median
    assert line.p90 <= p90


@pytest.mark.parametrize("row", OPEN)
def test_a_row_that_is_open_gets_no_worse(row: str) -> None:
    """It is scored beside the others, by each of its readings."""
    errors = [abs(score.error) for score in published().memory.scores if score.case == row]

    assert 0 < max(errors) <= OPEN[row]


@pytest.mark.parametrize("classes", POOLED)
def test_pooled_errors_stay_below_their_floor(classes: tuple[str, ...]) -> None:
    """Over all readings of a kind of run: median, tail and bias."""
    median, p90, bias = POOLED[classes]

    line = pooled(published().memory, classes)

    assert line.median <= median
    assert line.p90 <= p90
    assert abs(line.bias) <= bias


@pytest.mark.parametrize("scores_as", CASES)
def test_no_reading_that_was_answered_is_refused_again(scores_as: str) -> None:
    """The floors are held by at least as many readings as when they were set."""
    assert (
        sum(score.scores_as == scores_as for score in published().memory.scores) >= CASES[scores_as]
    )


def test_verdicts_agree_with_what_ran_and_what_did_not() -> None:
    """At most one in a hundred runs is wrongly said to fit, one in twenty of those that ran out of
    memory, or not to fit.
    """
    counted = labels(published().memory.labels)

    assert counted.false_fits <= counted.num_runs * 0.01
    assert counted.false_fits <= counted.num_out_of_memory * 0.05
    assert counted.false_refusals <= counted.num_runs * 0.05


def test_the_page_says_what_the_code_says() -> None:
    """It is that of this code: run ``python -m tests.accuracy --write`` after a change."""
    for path, content in make_published_page(published()).items():
        assert path.read_text() == content, f"{path.name} is stale"


def test_times_stay_below_their_floor() -> None:
    """Steps and generations of published runs."""
    errors = [(abs(score.error), 1.0) for score in published().times]
    median, p90 = TIMES

    assert weighted_quantile(errors, 0.5) <= median
    assert weighted_quantile(errors, 0.9) <= p90


def test_every_source_has_its_translation() -> None:
    """Each translator has a file of cases, or a reason for every row that it leaves out."""
    families = {case.group.partition("|")[0] for case in published_cases()}

    assert published_cases()
    assert (
        set(translators()) - {name for name, reasons in skipped_rows().items() if reasons}
        <= families
    )
