"""Refusals of verl's trainers on Megatron-LM: the commands that ask of their parts."""

import re

import pytest

from service.__main__ import main
from service.formats.launches.values.errors import LaunchFormatError
from tests.unit.formats.launches.importing import import_launch

_MEGATRON = "actor_rollout_ref.actor.megatron"
_SCRIPT = (
    "python -m verl.trainer.main_ppo --config-name=ppo_megatron_trainer.yaml "
    "algorithm.adv_estimator=grpo actor_rollout_ref.model.path=qwen2.5-7b "
    "data.max_prompt_length=1024 data.max_response_length=1024 trainer.n_gpus_per_node=8 "
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=2 actor_rollout_ref.rollout.name=vllm "
    "actor_rollout_ref.rollout.gpu_memory_utilization=0.6 "
    "actor_rollout_ref.actor.megatron.tensor_model_parallel_size=2 "
    "actor_rollout_ref.actor.megatron.pipeline_model_parallel_size=2"
)


def _refuse(*overrides: str) -> str:
    with pytest.raises(LaunchFormatError) as refusal:
        import_launch(command=" ".join((_SCRIPT, *overrides)))
    return str(refusal.value)


def test_the_update_and_the_engine_are_asked_by_commands() -> None:
    """With the launch's own degrees, batch and length."""
    message = _refuse()

    update, engine = re.findall(r"`(fit [^`]+)`", message)
    assert update == (
        "fit qwen2.5-7b --task train --framework megatron --sharding megatron --tensor-parallel 2 "
        "--pipeline-parallel 2 --data-parallel 2 --zero-stage 1 --precision megatron_bf16 "
        "--sequence-length 2048 --micro-batch-size 2"
    )
    assert engine == (
        "fit qwen2.5-7b --task serve --engine vllm --tensor-parallel 2 --gpu-memory-fraction 0.6 "
        "--max-model-len 2048"
    )


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("actor_rollout_ref.actor.use_kl_loss=True", "the reference's weights and the context"),
        (
            "actor_rollout_ref.actor.use_dynamic_bsz=True",
            "--sequence-length 16384 --micro-batch-size 1",
        ),
        (
            f"{_MEGATRON}.override_transformer_config.recompute_granularity=full",
            "--activation-checkpointing full",
        ),
        (f"{_MEGATRON}.expert_model_parallel_size=2", "--expert-parallel 2"),
    ],
)
def test_what_decides_its_memory_is_in_them(override: str, words: str) -> None:
    """And what stays beside the update is said."""
    assert words in _refuse(override)


@pytest.mark.parametrize("number", [0, 1])
def test_the_commands_have_an_answer(number: int, capsys: pytest.CaptureFixture[str]) -> None:
    """They are typed as they stand, with a GPU."""
    command = re.findall(r"`(fit [^`]+)`", _refuse())[number]

    status = main([*command.split(), "--gpu", "H100-SXM5-80GB", "--offline"])

    assert (status, "per GPU" in capsys.readouterr().out) == (0, True)
