"""GRPO of ms-swift: who generates where, beside which reference."""

from typing import Any

import pytest

from service.formats.launches.values.errors import LaunchFormatError
from service.formats.launches.values.launch import ImportedLaunch
from tests.unit.formats.launches.asking import ask_command
from tests.unit.formats.launches.importing import get_part, import_launch

BASE = "swift rlhf --rlhf_type grpo --model a/b --dataset x"


def _import(words: str) -> ImportedLaunch:
    return import_launch(command=f"{BASE} {words}")


def _get_rollout(words: str) -> dict[str, Any]:
    rollout = get_part(_import(words), "workload").get("rollout", {})
    assert isinstance(rollout, dict)
    return rollout


def test_a_prompt_has_max_length() -> None:
    """And a completion its own; logits of it are made whole."""
    workload = get_part(_import("--max_length 1024 --max_completion_length 256"), "workload")

    assert (workload["sequence_length"], workload["completion_length"]) == (1280, 256)
    assert (workload["trainer"], workload["loss"]) == ("grpo", "selective")
    assert workload["gradient_accumulation_steps"] == 1


@pytest.mark.parametrize(
    ("words", "length"),
    [("--use_vllm true --vllm_mode colocate --vllm_max_model_len 4096", 4096), ("", None)],
)
def test_a_length_is_the_engines_or_asked(words: str, length: int | None) -> None:
    """The engine's longest sequence says it as well."""
    imported = _import(words)

    asked = {question.field for question in imported.questions}
    assert get_part(imported, "workload").get("sequence_length") == length
    assert ("workload.sequence_length" in asked) == (length is None)


@pytest.mark.parametrize(
    ("words", "reference"),
    [
        ("", "adapters_off"),
        ("--tuner_type full", "model"),
        ("--tuner_type full --beta 0", None),
        ("--tuner_type full --ref_model c/d", "model"),
    ],
)
def test_a_penalty_is_on_unless_it_is_zero(words: str, reference: str | None) -> None:
    """Its default is 0.04."""
    assert get_part(_import(f"--max_length 512 {words}"), "workload").get("reference") == reference


def test_an_engine_shares_the_gpus() -> None:
    """It is given what is learned from until it generates again, on its ranks."""
    rollout = _get_rollout(
        "--max_length 512 --use_vllm true --vllm_mode colocate --per_device_train_batch_size 4 "
        "--steps_per_generation 2 --vllm_tensor_parallel_size 2 --sleep_level 1 "
        "--offload_model true --offload_optimizer true"
    )

    assert rollout == {
        "engine": "vllm",
        "gpu_memory_fraction": 0.9,
        "tensor_parallel": 2,
        "sleep_level": 1,
        "enforce_eager": False,
        "max_num_sequences": 16,
        "offload_parameters": True,
        "offload_optimizer": True,
    }


def test_a_server_has_gpus_of_its_own() -> None:
    """Its words have no effect on these."""
    imported = _import(
        "--max_length 512 --use_vllm true --vllm_mode server --vllm_server_host h --sleep_level 1"
    )

    assert "rollout" not in get_part(imported, "workload")
    assert {"--use_vllm", "--vllm_server_host", "--sleep_level"} <= {*imported.without_effect}


def test_a_policy_generates_by_itself_without_an_engine() -> None:
    """As many sequences as a step has."""
    rollout = _get_rollout("--max_length 512 --per_device_train_batch_size 4")

    assert rollout == {"engine": "transformers", "num_sequences": 4}


def test_a_mode_is_asked_beside_the_engine() -> None:
    """ms-swift refuses an engine without a mode."""
    with pytest.raises(LaunchFormatError, match="vllm_mode beside it: colocate or server"):
        _import("--max_length 512 --use_vllm true")


@pytest.mark.parametrize(
    "word", ["reward_model c/d", "teacher_model c/d", "vllm_enable_lora true", "padding_free true"]
)
def test_what_is_not_counted_is_named(word: str) -> None:
    """With what is counted in its place."""
    imported = _import(f"--max_length 512 --use_vllm true --vllm_mode colocate --{word}")

    assert imported.ignored == (f"--{word.split(maxsplit=1)[0]}",)


def test_its_question_has_an_answer() -> None:
    """Nothing is missing, and nobody refuses it."""
    question = ask_command(
        "NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model qwen2.5-7b --tuner_type full "
        "--dataset x --max_length 1024 --deepspeed zero2 --use_vllm true --vllm_mode colocate "
        "--vllm_gpu_memory_utilization 0.3 --sleep_level 1",
        gpu="H100-SXM5-80GB",
    )

    assert (question.missing, question.refusal) == ((), None)
