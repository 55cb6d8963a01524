"""Arguments of OpenRLHF's trainer of policies."""

from typing import Any

import pytest

from service.formats.launches.values.errors import LaunchFormatError
from service.formats.launches.values.launch import ImportedLaunch, Launcher
from tests.unit.formats.launches.asking import ask
from tests.unit.formats.launches.importing import get_part, import_launch

_PROGRAM = "python3 -m openrlhf.cli.train_ppo_ray"
_ARGUMENTS = (
    "--algo.advantage.estimator group_norm --actor.model_name_or_path Qwen/Qwen2.5-7B "
    "--actor.num_gpus_per_node 8 --vllm.num_engines 4 --vllm.tensor_parallel_size 2 "
    "--train.colocate_all --data.max_len 4096 --rollout.max_new_tokens 3072 "
    "--train.micro_batch_size 2"
)


def _import(arguments: str = "") -> ImportedLaunch:
    return import_launch(command=f"{_PROGRAM} {_ARGUMENTS} {arguments}")


def _get_rollout(imported: ImportedLaunch) -> dict[str, Any]:
    rollout = get_part(imported, "workload")["rollout"]
    assert isinstance(rollout, dict)
    return rollout


def test_arguments_are_the_question() -> None:
    """DeepSpeed's second stage and fp32 logits are its defaults."""
    imported = _import()

    workload, layout = get_part(imported, "workload"), get_part(imported, "layout")
    assert imported.launcher is Launcher.OPENRLHF
    assert (workload["trainer"], workload["loss"]) == ("grpo", "full_logits")
    assert (workload["sequence_length"], workload["completion_length"]) == (4096, 3072)
    assert workload["micro_batch_size"] == 2
    assert workload["gradient_accumulation_steps"] == 128 // 8 // 2
    assert workload["precision"] == "deepspeed_bf16"
    assert workload["log_prob_batch_size"] == 1
    assert layout == {"data_parallel": 8, "zero_stage": 2, "sharding": "deepspeed"}
    assert imported.ignored == ()


def test_engines_beside_every_model_sleep_where_they_are_told() -> None:
    """At level 1, with their weights on the host; the optimizer's states may be there too."""
    awake = _get_rollout(_import())
    asleep = _get_rollout(
        _import("--vllm.enable_sleep --ds.enable_sleep --vllm.gpu_memory_utilization 0.5")
    )

    assert (awake["sleep_level"], awake["gpu_memory_fraction"]) == (0, 0.95)
    assert awake["own_process"]
    assert (awake["tensor_parallel"], awake["max_model_len"]) == (2, 4096)
    assert (asleep["sleep_level"], asleep["gpu_memory_fraction"]) == (1, 0.5)
    assert asleep["offload_optimizer"]


def test_engines_on_gpus_of_their_own_are_another_question() -> None:
    """Nothing of theirs counts for the update."""
    command = f"{_PROGRAM} {_ARGUMENTS}".replace("--train.colocate_all ", "")
    imported = import_launch(command=command)

    assert "rollout" not in get_part(imported, "workload")
    assert "reference" not in get_part(imported, "workload")
    assert "--vllm.tensor_parallel_size" in imported.without_effect


@pytest.mark.parametrize(
    ("arguments", "reference"),
    [
        ("", "model"),
        ("--ref.offload", "offloaded"),
        ("--ds.lora.rank 16", "model"),
        ("--algo.kl.init_coef 0", None),
    ],
)
def test_a_penalty_keeps_a_reference_beside_the_policy(
    arguments: str, reference: str | None
) -> None:
    """It is a model of its own, which may be on the host."""
    assert get_part(_import(arguments), "workload").get("reference") == reference


def test_a_budget_of_tokens_is_the_micro_batch() -> None:
    """Scores may have another."""
    imported = _import(
        "--train.dynamic_batch_enable --train.max_tokens_per_gpu 16192 "
        "--rollout.max_tokens_per_gpu 32768"
    )

    workload = get_part(imported, "workload")
    assert (workload["sequence_length"], workload["micro_batch_size"]) == (16192, 1)
    assert workload["log_prob_batch_size"] == 3
    assert workload["gradient_accumulation_steps"] == 128 // 8 // 3


def test_a_job_that_ray_submits_is_the_program_behind_it() -> None:
    """Ray's own options say where it runs."""
    imported = import_launch(
        command=f"ray job submit --address=http://127.0.0.1:8265 -- {_PROGRAM} {_ARGUMENTS}"
    )

    assert imported.launcher is Launcher.OPENRLHF
    assert imported.ignored == ()


def test_what_has_no_term_is_ignored_with_its_reason() -> None:
    """And what decides nothing is without effect."""
    imported = _import(
        "--reward.model_name_or_path org/reward --train.enable_ema --actor.adam.lr 5e-7 "
        "--ds.nonsense 1"
    )

    assert set(imported.ignored) == {
        "--reward.model_name_or_path",
        "--train.enable_ema",
        "--ds.nonsense",
    }
    assert "--actor.adam.lr" in imported.without_effect
    assert len(imported.warnings) == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--algo.advantage.estimator gae --train.colocate_all", "updated at the same time"),
        ("--algo.advantage.estimator gae --train.colocate_all", "the critic by itself"),
        ("--ds.ring_attn_size 3", "a divisor of the 8 GPUs"),
        ("--actor.optim lion", "expected one of adam, muon"),
        ("--ds.param_dtype fp16", "expected one of bf16"),
    ],
)
def test_what_has_no_model_is_refused(arguments: str, words: str) -> None:
    """With what has one."""
    with pytest.raises(LaunchFormatError, match=words):
        _import(arguments)


def test_a_critic_on_the_same_gpus_sleeps_in_its_own_process() -> None:
    """It begins from the reward model, which nobody here knows, with the policy's batches."""
    imported = _import(
        "--algo.advantage.estimator gae --train.colocate_all --ds.enable_sleep "
        "--critic.model_name_or_path org/critic --critic.optim adam --critic.adam.lr 9e-6"
    )

    assert get_part(imported, "workload")["critic"] == {
        "model": "org/critic",
        "adapters": False,
        "offload_optimizer": True,
        "own_process": True,
    }
    assert "--critic.adam.lr" in imported.without_effect


def test_a_critic_on_gpus_of_its_own_is_another_question() -> None:
    """It is told how that is asked."""
    imported = import_launch(
        command=f"{_PROGRAM} --algo.advantage.estimator gae --actor.model_name_or_path gpt2"
    )

    assert "critic" not in get_part(imported, "workload")
    assert any("the critic has GPUs of its own" in warning for warning in imported.warnings)


def test_its_question_has_an_answer() -> None:
    """Nothing is missing, and nobody refuses it."""
    question = ask(command=f"{_PROGRAM} {_ARGUMENTS}", model="qwen2.5-7b", gpu="H100-SXM5-80GB")

    assert (question.missing, question.refusal) == ((), None)
