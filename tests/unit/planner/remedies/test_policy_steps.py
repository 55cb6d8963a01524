"""Changes to a policy's rollout that would make its training fit."""

from typing import Any

from service.estimator.values.generation import Rollout, RolloutEngine
from service.estimator.values.layout import Layout
from service.estimator.values.losses import Loss, Trainer
from service.estimator.values.workload import TrainWorkload
from service.planner.fit.changes import list_changes
from service.planner.remedies.policy_steps import (
    let_engine_sleep,
    move_states,
    shorten_engine,
    shrink_engine,
)
from tests.builders import a_training


def _grpo(**said: Any) -> tuple[TrainWorkload, Layout]:  # noqa: ANN401 - each its own type
    workload = a_training(trainer=Trainer.GRPO, loss=Loss.NLL, rollout=Rollout(**said))
    return workload, Layout()


def _get_rollouts(steps: Any) -> list[Rollout]:  # noqa: ANN401 - what a step yields
    return [workload.rollout for workload, _ in steps]


def test_an_engine_that_is_awake_may_sleep() -> None:
    """The level that frees most; one that sleeps, or has no pool, is left alone."""
    asleep = _get_rollouts(let_engine_sleep(_grpo(gpu_memory_fraction=0.3)))

    assert [rollout.sleep_level for rollout in asleep] == [2]
    assert list(let_engine_sleep(_grpo(sleep_level=1))) == []
    assert list(let_engine_sleep(_grpo(engine=RolloutEngine.TRANSFORMERS))) == []


def test_an_engines_share_is_lowered_step_by_step() -> None:
    """From just below what it has; a share that nobody said is not touched."""
    smaller = _get_rollouts(shrink_engine(_grpo(gpu_memory_fraction=0.35)))

    assert [rollout.gpu_memory_fraction for rollout in smaller] == [0.3, 0.2, 0.1]
    assert list(shrink_engine(_grpo())) == []


def test_an_engine_accepts_no_more_than_is_trained() -> None:
    """Unsaid, its longest sequence is the model's, for which its pool must have room."""
    workload, layout = _grpo()
    length = workload.sequence_length

    shorter = _get_rollouts(shorten_engine((workload, layout)))

    assert [rollout.max_model_len for rollout in shorter] == [length]
    assert list(shorten_engine(_grpo(max_model_len=length))) == []
    assert list(shorten_engine(_grpo(engine=RolloutEngine.TRANSFORMERS))) == []


def test_states_are_moved_where_a_trainer_can_move_them() -> None:
    """An engine in a process of its own is verl's; TRL's trainer has no such switch."""
    moved = _get_rollouts(move_states(_grpo(sleep_level=2, own_process=True)))

    assert [(one.offload_parameters, one.offload_optimizer) for one in moved] == [(True, True)]
    assert list(move_states(_grpo(sleep_level=2))) == []


def test_a_change_says_the_whole_rollout_without_its_defaults() -> None:
    """As a request takes it."""
    before = _grpo(gpu_memory_fraction=0.35)
    (after,) = let_engine_sleep(before)

    assert list_changes(before, after) == {
        "rollout": {"engine": "vllm", "gpu_memory_fraction": 0.35, "sleep_level": 2}
    }
