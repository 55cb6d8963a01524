"""Critics of verl: their model, their batches, and what is otherwise than the policy's."""

from service.cli.offline.inline import resolve_offline_model
from service.contract.schemas.fit import FitRequest
from service.contract.to_question.fits import read_fit
from service.contract.to_question.validation_errors import decode
from service.formats.launches.values.launch import ImportedLaunch
from service.planner.fit.evaluator import make_evaluator
from tests.unit.formats.launches.asking import ask
from tests.unit.formats.launches.importing import get_part, import_launch

_PROGRAM = "python3 -m verl.trainer.main_ppo"
_PPO = (
    "actor_rollout_ref.model.path=Qwen/Qwen2.5-7B actor_rollout_ref.rollout.name=vllm "
    "data.max_prompt_length=1024 data.max_response_length=1024 trainer.n_gpus_per_node=8"
)
_MICRO = "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=16"


def _import(*overrides: str) -> ImportedLaunch:
    return import_launch(command=" ".join((_PROGRAM, _PPO, *overrides)))


def test_a_critic_is_the_default() -> None:
    """Nobody who leaves the estimator out trains without one; which model is asked."""
    imported = import_launch(
        command=f"{_PROGRAM} actor_rollout_ref.model.path=gpt2 actor_rollout_ref.rollout.name=vllm"
    )

    assert get_part(imported, "workload")["critic"] == {
        "sequence_length": 1024,
        "checkpointed": True,
        "offload_parameters": False,
        "offload_optimizer": False,
    }
    questions = {question.field: question.is_assumed for question in imported.questions}
    assert questions["workload.critic.model"]
    assert questions["workload.critic.micro_batch_size"]


def test_a_critic_has_its_own_budget_of_tokens() -> None:
    """It takes whether there is one from the policy; its values may have another."""
    imported = _import(
        *("algorithm.adv_estimator=gae", "critic.model.path=org/critic"),
        *("actor_rollout_ref.actor.use_dynamic_bsz=True", "critic.fsdp.optimizer_offload=True"),
        *("critic.ppo_max_token_len_per_gpu=24576", "critic.forward_max_token_len_per_gpu=98304"),
        *("critic.model.enable_gradient_checkpointing=False", "critic.optim.lr=1e-5"),
    )

    assert get_part(imported, "workload")["critic"] == {
        "model": "org/critic",
        "sequence_length": 24576,
        "micro_batch_size": 1,
        "values_batch_size": 4,
        "checkpointed": False,
        "offload_parameters": False,
        "offload_optimizer": True,
    }
    assert imported.ignored == ()
    assert "critic.optim.lr" in imported.without_effect


def test_a_critic_by_sequences_counts_those_of_a_gpu() -> None:
    """Older releases name its FSDP below its model, and batches of all GPUs."""
    imported = _import(
        *(_MICRO, "algorithm.adv_estimator=grpo", "critic.enable=True"),
        *("critic.model.path=Qwen/Qwen2.5-7B", "critic.ppo_micro_batch_size=32"),
        "critic.model.fsdp_config.param_offload=True",
    )

    critic = get_part(imported, "workload")["critic"]
    assert (critic["micro_batch_size"], critic["sequence_length"]) == (4, 2048)
    assert critic["offload_parameters"]
    assert "model" not in critic


def test_what_a_critic_has_otherwise_than_the_policy_is_named() -> None:
    """It is counted as sharded as the policy, in the same formats."""
    imported = _import(
        *(_MICRO, "algorithm.adv_estimator=gae", "critic.model.path=Qwen/Qwen2.5-7B"),
        *("critic.ppo_micro_batch_size_per_gpu=8", "critic.ulysses_sequence_parallel_size=2"),
        *("critic.fsdp.model_dtype=bf16", "critic.strategy=fsdp", "critic.model.lora_rank=8"),
    )

    assert set(imported.ignored) == {
        "critic.ulysses_sequence_parallel_size",
        "critic.fsdp.model_dtype",
        "critic.model.lora_rank",
    }
    assert len(imported.warnings) == 3


def test_a_switch_turns_a_critic_off() -> None:
    """It wins over the estimator (``need_critic``)."""
    imported = _import(_MICRO, "algorithm.adv_estimator=gae", "critic.enable=False")

    assert "critic" not in get_part(imported, "workload")


def test_a_question_with_a_critic_has_an_answer() -> None:
    """Its phases are told, and nothing is refused."""
    question = ask(
        gpu="H100-SXM5-80GB",
        command=f"{_PROGRAM} {_PPO} {_MICRO} algorithm.adv_estimator=gae "
        "critic.model.path=Qwen/Qwen2.5-7B critic.ppo_micro_batch_size_per_gpu=16",
    )
    request = decode(question.document, FitRequest)
    fit = read_fit(request, resolve_offline_model(request.model))
    answer = make_evaluator(fit.architecture, fit.device).answer(fit.workload, fit.layout)

    names = [instant.name for instant in answer.instants]
    assert question.missing == ()
    assert names[1:6] == ["weight_sync", "rollout", "log_probs", "values", "critic_update"]
