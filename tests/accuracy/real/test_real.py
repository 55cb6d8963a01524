"""What was reached on real GPUs, so that no change makes it worse."""

from statistics import median, quantiles

import pytest

from service.catalog.models import load_architecture, resolve_model
from service.estimator.memory.intervals.replay_classes import RECORDED_FAMILIES
from tests.accuracy.real.bounds import compute_mean_share, score_bounds
from tests.accuracy.real.rows import list_client_runs, list_sweep_runs
from tests.accuracy.real.scoring import (
    DEVICE,
    GENERATE,
    REQUESTED,
    RESERVED,
    SWEEP_SERVING,
    SWEEP_TRAINING,
    TRAINER,
    TRL,
    score_real_runs,
    summarise,
)
from tests.gpu.sweep.predict import load_case_architecture

REACHED = {
    (TRAINER, REQUESTED): (0.0001, 0.0001, 0.0002),
    (TRAINER, RESERVED): (0.0, 0.0003, 0.0028),
    (TRAINER, DEVICE): (0.0, 0.0003, 0.0025),
    (TRL, REQUESTED): (0.0001, 0.0001, 0.0001),
    (TRL, RESERVED): (0.0, 0.0, 0.0),
    (TRL, DEVICE): (0.0, 0.0, 0.0),
    (GENERATE, REQUESTED): (0.0001, 0.0001, 0.0001),
    (GENERATE, RESERVED): (0.0, 0.0002, 0.0005),
    (GENERATE, DEVICE): (0.0004, 0.0005, 0.0009),
    (SWEEP_TRAINING, REQUESTED): (0.0, 0.0001, 0.0001),
    (SWEEP_TRAINING, RESERVED): (0.0, 0.0001, 0.0022),
    (SWEEP_TRAINING, DEVICE): (0.0, 0.0001, 0.0021),
    (SWEEP_SERVING, REQUESTED): (0.0, 0.0, 0.0002),
    (SWEEP_SERVING, RESERVED): (0.0006, 0.0014, 0.0105),
    (SWEEP_SERVING, DEVICE): (0.00052, 0.0009, 0.0066),
}
"""By client and quantity: median, mean and largest error, none of which may grow."""
NUM_RUNS = {TRAINER: 11, TRL: 1, GENERATE: 4, SWEEP_TRAINING: 88, SWEEP_SERVING: 21}
MEAN_SHARE = 0.998
LEVEL = 0.95
NUM_TIMES = 16
WIDTH_REPLAYED = 0.007
TIMES = (0.059, 0.190)
"""Median and 90th percentile of a client's step or generation, neither of which may grow."""
_ROUNDING = 1e-5


@pytest.mark.parametrize(("group", "quantity"), list(REACHED))
def test_no_error_grows(group: str, quantity: str) -> None:
    """Neither in the middle nor at the worst run."""
    summary = summarise(score_real_runs().of(group), quantity)

    reached = (summary.median, summary.mean, summary.max)
    assert all(
        now <= best + _ROUNDING for now, best in zip(reached, REACHED[group, quantity], strict=True)
    )


def test_every_run_is_answered() -> None:
    """A run that is refused would leave the table better than it is."""
    scores = score_real_runs()

    assert scores.refusals == ()
    assert {group: len(scores.of(group)) for group in scores.groups} == NUM_RUNS


def test_intervals_hold_what_they_promise() -> None:
    """Of all runs; and where the allocator is replayed they are narrow."""
    scores = score_real_runs()
    trained = [score for name in (TRAINER, TRL, SWEEP_TRAINING) for score in scores.of(name)]

    assert summarise(scores.scores, DEVICE).coverage >= LEVEL
    assert summarise(trained, DEVICE).coverage >= LEVEL
    assert summarise(trained, DEVICE).width <= WIDTH_REPLAYED
    assert summarise(scores.of(SWEEP_SERVING), RESERVED).coverage >= LEVEL
    assert summarise(scores.of(SWEEP_SERVING), DEVICE).width <= WIDTH_REPLAYED


def test_no_time_of_a_client_grows() -> None:
    """Steps of trainers and whole generations."""
    errors = sorted(
        abs(score.time_error) for score in score_real_runs().scores if score.time_error is not None
    )

    assert len(errors) == NUM_TIMES
    assert median(errors) <= TIMES[0]
    assert quantiles(errors, n=10)[-1] <= TIMES[1]


def test_recorded_families_are_those_that_ran() -> None:
    """Intervals of a family may rest on recorded runs only where there are some."""
    sweeps = [load_case_architecture(run.case).family for run in list_sweep_runs()]
    clients = [load_architecture(resolve_model(run.model)).family for run in list_client_runs()]

    assert {*sweeps, *clients} == RECORDED_FAMILIES


def test_no_batch_is_let_through_that_ran_out_of_memory() -> None:
    """A wrong "fits" wastes a night."""
    bounds = score_bounds()

    assert [bound for bound in bounds if bound.is_false_fit] == []
    assert compute_mean_share(bounds) >= MEAN_SHARE
