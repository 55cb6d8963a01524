"""Policies in requests: their rollout, read with its defaults and rendered as it was asked."""

from typing import Any

import msgspec
import pytest

from service.contract.schemas.workload import WorkloadRequest
from service.contract.to_answer.requests import render_workload
from service.contract.to_question.workloads import read_workload
from service.estimator.values.errors import InvalidInputError
from service.estimator.values.generation import Rollout, RolloutEngine
from service.estimator.values.losses import Loss, Reference, Trainer
from service.estimator.values.workload import TrainWorkload


def _read(**fields: object) -> tuple[TrainWorkload, list[str]]:
    request: Any = msgspec.convert(
        {"task": "train", "sequence_length": 4096, "trainer": "grpo"} | fields, WorkloadRequest
    )
    workload, assumptions = read_workload(request)
    assert isinstance(workload, TrainWorkload)
    return workload, assumptions


def test_a_policy_has_trls_loss_and_no_engine_beside_it() -> None:
    """What is taken for granted of its completions is said."""
    workload, assumptions = _read()

    assert (workload.trainer, workload.loss) == (Trainer.GRPO, Loss.CHUNKED_NLL)
    assert (workload.rollout, workload.reference) == (None, None)
    assert any("every token of a sequence is one of its completion" in line for line in assumptions)


def test_a_rollout_is_read_with_the_defaults_of_trl() -> None:
    """An engine is vLLM's, awake, in the trainer's process."""
    workload, _ = _read(rollout={"gpu_memory_fraction": 0.3}, completion_length=1024)

    assert workload.rollout == Rollout(gpu_memory_fraction=0.3)
    assert workload.rollout.engine is RolloutEngine.VLLM
    assert workload.completion_length == 1024


def test_a_policy_is_rendered_as_it_is_asked() -> None:
    """Sent back, it is the same workload."""
    rollout = {"engine": "sglang", "sleep_level": 1, "tensor_parallel": 2, "own_process": True}
    workload, _ = _read(rollout=rollout, reference="offloaded", entropy_bonus=True)
    rendered = render_workload(workload)

    again: Any = msgspec.convert(rendered, WorkloadRequest)
    assert read_workload(again)[0] == workload
    assert workload.reference is Reference.OFFLOADED
    assert rendered["rollout"] == rollout


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"trainer": "supervised", "rollout": {}}, "rollout is trainer grpo's"),
        ({"trainer": "dpo", "completion_length": 8}, "completion_length is trainer grpo's"),
        ({"completion_length": 4096}, "at least one token of each is the prompt's"),
        (
            {"rollout": {"engine": "transformers", "sleep_level": 2}},
            "it has neither a sleep_level nor a gpu_memory_fraction",
        ),
    ],
)
def test_what_contradicts_itself_is_refused(fields: dict[str, object], words: str) -> None:
    """With what would be right."""
    with pytest.raises(InvalidInputError, match=words):
        _read(**fields)
