"""Arguments of TRL's RLOOTrainer, whose step is GRPO's beside a reference."""

from typing import Any

import pytest

from service.formats.launches.values.errors import LaunchFormatError
from service.formats.launches.values.launch import ImportedLaunch, Launcher
from tests.unit.formats.launches.asking import ask
from tests.unit.formats.launches.importing import get_part, import_launch

_SCRIPT: dict[str, object] = {
    "model": "Qwen/Qwen2.5-1.5B",
    "per_device_train_batch_size": 4,
    "prompt_length": 512,
    "max_completion_length": 1024,
}
_IDLE = """
    trust_remote_code router_aux_loss_coef disable_dropout remove_unused_columns
    num_generations num_generations_eval shuffle_dataset temperature top_p top_k min_p
    generation_kwargs chat_template_kwargs repetition_penalty cache_implementation vllm_model_impl
    vllm_structured_outputs_regex vllm_server_base_url vllm_server_host vllm_server_port
    vllm_server_timeout vllm_group_port num_iterations epsilon epsilon_high reward_weights
    normalize_advantages reward_clip_range mask_truncated_completions ref_model_mixup_alpha
    ref_model_sync_steps log_completions log_multimodal num_completions_to_print
    log_unique_prompts transformers_continuous_batching_config learning_rate
""".split()  # noqa: SIM905 - a list of words


def _import(**arguments: object) -> ImportedLaunch:
    return import_launch(arguments=_SCRIPT | arguments, launcher=Launcher.TRL_RLOO)


@pytest.mark.parametrize(
    ("arguments", "reference"),
    [({}, "model"), ({"beta": 0.0}, None), ({"peft": {"r": 16}}, "adapters_off")],
)
def test_a_penalty_is_on_unless_it_is_said(
    arguments: dict[str, object], reference: str | None
) -> None:
    """Its default is 0.05, where GRPO's is 0."""
    workload = get_part(_import(**arguments), "workload")

    assert (workload["trainer"], workload.get("reference")) == ("grpo", reference)


def test_its_step_is_grpos() -> None:
    """All else of the same arguments is the same question."""
    said = _SCRIPT | {"beta": 0.04, "use_vllm": True, "steps_per_generation": 2}
    one, other = (
        import_launch(arguments=said, launcher=launcher)
        for launcher in (Launcher.TRL_RLOO, Launcher.TRL_GRPO)
    )

    assert one.question == other.question


def test_every_key_of_its_config_is_accounted_for() -> None:
    """None is ignored; a loss is none of its arguments."""
    assert _import(**dict.fromkeys(_IDLE, 1)).ignored == ()
    assert _import(loss_type="dapo").ignored == ("loss_type",)


@pytest.mark.parametrize("argument", ["rloo_k", "kl_coef", "local_rollout_forward_batch_size"])
def test_the_trainer_that_had_its_name_before_is_refused(argument: str) -> None:
    """It kept whole logits, and a reward model beside."""
    with pytest.raises(LaunchFormatError, match=r"since TRL 0\.22"):
        _import(**{argument: 2})


def test_its_script_is_known_by_its_command() -> None:
    """And what it leaves open is asked; TRL before 1.15 held all logits."""
    imported = import_launch(
        command="trl rloo --num_processes 4 --model_name_or_path gpt2 --use_vllm "
        "--normalize_advantages --max_prompt_length 256"
    )
    workload: dict[str, Any] = get_part(imported, "workload")

    assert imported.launcher is Launcher.TRL_RLOO
    assert (workload["loss"], workload["completion_length"]) == ("selective", 256)
    assert "rollout" not in workload


def test_its_question_has_an_answer() -> None:
    """Nothing is missing, and nobody refuses it."""
    question = ask(
        arguments=_SCRIPT | {"use_vllm": True, "model": "qwen2.5-1.5b"},
        launcher="trl_rloo",
        gpu="H100-SXM5-80GB",
    )

    assert (question.missing, question.refusal) == ((), None)
