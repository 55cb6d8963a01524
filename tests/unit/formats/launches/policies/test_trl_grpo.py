"""Arguments of TRL's GRPOTrainer: who generates where, and what of a sequence is scored."""

from typing import Any

import pytest

from service.formats.launches.values.errors import LaunchFormatError
from service.formats.launches.values.launch import ImportedLaunch, Launcher
from tests.unit.formats.launches.asking import ask
from tests.unit.formats.launches.importing import get_part, import_launch

_SCRIPT: dict[str, object] = {
    "model": "Qwen/Qwen2.5-1.5B",
    "per_device_train_batch_size": 8,
    "gradient_accumulation_steps": 4,
    "prompt_length": 512,
    "max_completion_length": 1024,
}
_IDLE = """
    num_generations num_generations_eval shuffle_dataset temperature top_p top_k min_p
    generation_kwargs chat_template_kwargs repetition_penalty cache_implementation
    vllm_model_impl vllm_structured_outputs_regex vllm_server_base_url vllm_server_host
    vllm_server_port vllm_server_timeout vllm_group_port num_iterations epsilon delta
    epsilon_high sapo_temperature_neg sapo_temperature_pos vespo_k_pos vespo_lambda_pos
    vespo_k_neg vespo_lambda_neg importance_sampling_level reward_weights
    multi_objective_aggregation scale_rewards mask_truncated_completions ref_model_mixup_alpha
    ref_model_sync_steps top_entropy_quantile entropy_coef use_adaptive_entropy entropy_coef_min
    entropy_coef_max entropy_coef_delta entropy_target max_tool_calling_iterations
    vllm_importance_sampling_correction vllm_importance_sampling_mode
    vllm_importance_sampling_clip_max vllm_importance_sampling_clip_min
    off_policy_mask_threshold transformers_continuous_batching_config router_aux_loss_coef
    learning_rate use_bias_correction_kl log_completions log_multimodal num_completions_to_print
    log_unique_prompts log_completions_hub_repo vllm_importance_sampling_cap disable_dropout
    trust_remote_code remove_unused_columns ds3_gather_for_generation
""".split()  # noqa: SIM905 - a list of words
_IGNORED = {
    "cast_lm_head_to_fp32": True,
    "use_transformers_continuous_batching": True,
    "use_transformers_paged": True,
    "reward_funcs": "org/reward-model",
}


def _import(**arguments: object) -> ImportedLaunch:
    return import_launch(arguments=_SCRIPT | arguments, launcher=Launcher.TRL_GRPO)


def _get_rollout(imported: ImportedLaunch) -> dict[str, Any]:
    rollout = get_part(imported, "workload").get("rollout", {})
    assert isinstance(rollout, dict)
    return rollout


def test_prompts_and_completions_are_sequences() -> None:
    """Of which the completions are scored."""
    workload = get_part(_import(), "workload")

    assert (workload["sequence_length"], workload["completion_length"]) == (1536, 1024)
    assert (workload["trainer"], workload["micro_batch_size"]) == ("grpo", 8)
    assert "reference" not in workload


def test_a_prompts_length_is_asked_where_nobody_says_it() -> None:
    """The config has the completions' alone; the engine's longest sequence says it as well."""
    silent, engine = (
        _import(prompt_length=None, use_vllm=True, **said)
        for said in ({}, {"vllm_max_model_length": 4096})
    )

    assert [question.field for question in silent.questions] == ["workload.sequence_length"]
    assert get_part(engine, "workload")["sequence_length"] == 4096
    assert engine.questions == ()


def test_a_policy_generates_by_itself_unless_vllm_is_used() -> None:
    """What one GPU generates at once is what it learns from until it generates again."""
    assert _get_rollout(_import()) == {"engine": "transformers", "num_sequences": 32}
    shorter = _import(steps_per_generation=2)
    assert _get_rollout(shorter)["num_sequences"] == 16


def test_a_colocated_engine_has_a_share_of_the_whole_card() -> None:
    """Defaults are TRL's: 0.3, awake, 4096 tokens a step, and so many sequences."""
    imported = _import(use_vllm=True)

    assert _get_rollout(imported) == {
        "engine": "vllm",
        "gpu_memory_fraction": 0.3,
        "tensor_parallel": 1,
        "sleep_level": 0,
        "max_num_batched_tokens": 4096,
        "max_num_sequences": 32,
    }
    sources = {read.where for read in imported.read if read.key == "vllm_gpu_memory_utilization"}
    assert sources == {"default: TRL 1.16.0, trl/trainer/grpo_config.py"}


def test_an_engine_that_sleeps_drops_its_weights() -> None:
    """TRL asks for vLLM's level 2."""
    said = {"vllm_enable_sleep_mode": True, "vllm_tensor_parallel_size": 2}
    rollout = _get_rollout(_import(use_vllm=True, vllm_max_model_length=2048, **said))

    assert (rollout["sleep_level"], rollout["tensor_parallel"]) == (2, 2)
    assert (rollout["max_model_len"], rollout["max_num_sequences"]) == (2048, 64)


def test_a_server_has_gpus_of_its_own() -> None:
    """The update is all that is left, and the engine's words have no effect on it."""
    imported = _import(use_vllm=True, vllm_mode="server", vllm_gpu_memory_utilization=0.9)

    assert "rollout" not in get_part(imported, "workload")
    assert {"use_vllm", "vllm_gpu_memory_utilization"} <= set(imported.without_effect)


@pytest.mark.parametrize(
    ("arguments", "reference"),
    [({"beta": 0.04}, "model"), ({"beta": 0.04, "peft": {"r": 16}}, "adapters_off")],
)
def test_a_penalty_needs_a_reference(arguments: dict[str, object], reference: str) -> None:
    """A second model, or the policy without its adapters."""
    assert get_part(_import(**arguments), "workload")["reference"] == reference


def test_every_key_of_its_config_is_accounted_for() -> None:
    """What decides nothing is without effect, and what has no term is ignored and named."""
    idle = _import(**dict.fromkeys(_IDLE, 1))
    ignored = _import(**_IGNORED)

    assert idle.ignored == ()
    assert set(ignored.ignored) == set(_IGNORED)
    assert len(ignored.warnings) == len(_IGNORED)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"use_vllm": True, "vllm_mode": "sidecar"}, "expected one of colocate, server"),
        ({"loss_type": "ppo"}, "expected one of dapo"),
        ({"max_completion_length": "many"}, "expected a whole number"),
    ],
)
def test_words_that_it_does_not_have_are_refused(arguments: dict[str, object], words: str) -> None:
    """With those that it has."""
    with pytest.raises(LaunchFormatError, match=words):
        _import(**arguments)


def test_its_script_is_known_by_its_command() -> None:
    """Flags need no value."""
    imported = import_launch(
        command="accelerate launch --num_processes 4 grpo.py --model_name_or_path gpt2 --use_vllm "
        "--vllm_enable_sleep_mode --prompt_length 256"
    )

    assert imported.launcher is Launcher.TRL_GRPO
    assert get_part(imported, "layout")["data_parallel"] == 4
    assert _get_rollout(imported)["sleep_level"] == 2


def test_its_question_has_an_answer() -> None:
    """Nothing is missing, and nobody refuses it."""
    question = ask(
        arguments=_SCRIPT | {"use_vllm": True, "model": "qwen2.5-1.5b"},
        launcher="trl_grpo",
        gpu="H100-SXM5-80GB",
    )

    assert (question.missing, question.refusal) == ((), None)


def test_a_loss_of_a_command_is_one_word() -> None:
    """An option that other trainers give several values is one here."""
    imported = import_launch(
        command="accelerate launch --num_processes 1 grpo.py --model_name_or_path gpt2 "
        "--loss_type grpo --prompt_length 256"
    )

    assert "--loss_type" in {key.key for key in imported.read}
