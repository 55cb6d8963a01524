"""What was reached on real GPUs, so that no change makes it worse."""

import pytest

from tests.accuracy.real.bounds import compute_mean_share, score_bounds
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

REACHED = {
    (TRAINER, RESERVED): (0.0030, 0.0296, 0.1845),
    (TRAINER, DEVICE): (0.0029, 0.0272, 0.1639),
    (TRL, DEVICE): (0.0, 0.0, 0.0),
    (GENERATE, RESERVED): (0.00025, 0.0020, 0.0073),
    (GENERATE, DEVICE): (0.00054, 0.0020, 0.0067),
    (SWEEP_TRAINING, REQUESTED): (0.0, 0.0001, 0.0002),
    (SWEEP_TRAINING, RESERVED): (0.0058, 0.0159, 0.1666),
    (SWEEP_TRAINING, DEVICE): (0.0035, 0.0120, 0.1537),
    (SWEEP_SERVING, REQUESTED): (0.0, 0.0001, 0.0002),
    (SWEEP_SERVING, RESERVED): (0.0006, 0.0014, 0.0105),
    (SWEEP_SERVING, DEVICE): (0.00052, 0.0037, 0.0652),
}
"""By client and quantity: median, mean and largest error, none of which may grow."""
NUM_RUNS = {TRAINER: 11, TRL: 1, GENERATE: 4, SWEEP_TRAINING: 88, SWEEP_SERVING: 21}
MEAN_SHARE = 0.993
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


def test_no_batch_is_let_through_that_ran_out_of_memory() -> None:
    """A wrong "fits" wastes a night."""
    bounds = score_bounds()

    assert [bound for bound in bounds if bound.is_false_fit] == []
    assert compute_mean_share(bounds) >= MEAN_SHARE
