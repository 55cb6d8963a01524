"""What an evaluation between steps says of a launch."""

from collections.abc import Mapping
from typing import Any

import pytest

from service.formats.launches.values.errors import LaunchFormatError
from service.formats.launches.values.launch import Launcher
from tests.unit.formats.launches.asking import ask, get_workload
from tests.unit.formats.launches.importing import import_launch

_TRAIN: dict[str, object] = {"model": "meta-llama/Llama-3.1-8B", "max_length": 2048, "bf16": True}
_STEPS: dict[str, object] = {"eval_strategy": "steps"}
_AXOLOTL = "base_model: NousResearch/Llama-3.2-1B\nsequence_len: 2048\nmicro_batch_size: 2\n"
_LIGER = (
    "plugins: [axolotl.integrations.liger.LigerPlugin]\nliger_rope: true\nliger_rms_norm: true\n"
    "liger_fused_linear_cross_entropy: true\n"
)
_UNPACKED = (
    "val_set_size: 0.1\neval_steps: 10\neval_batch_size: 16\nsample_packing: true\n"
    "eval_sample_packing: false\n"
)
_FACTORY = "model_name_or_path: m\nstage: sft\nfinetuning_type: lora\nval_size: 0.1\n"
_LOSSES: dict[str, object] = {"batch_size": 8, "kept_batches": 0}


def import_evaluation(
    **request: Any,  # noqa: ANN401 - each its own type
) -> Mapping[str, Any] | None:
    """Return the evaluation of a launch's question."""
    workload: Any = import_launch(**request).question["workload"]
    evaluation: Mapping[str, Any] | None = workload.get("evaluation")
    return evaluation


@pytest.mark.parametrize(
    ("arguments", "evaluation"),
    [
        ({}, None),
        ({"per_device_eval_batch_size": 64}, None),
        ({"eval_strategy": "no", "per_device_eval_batch_size": 4}, None),
        (_STEPS, _LOSSES),
        ({"evaluation_strategy": "epoch"}, _LOSSES),
        ({"eval_strategy": "IntervalStrategy.STEPS"}, _LOSSES),
        ({"eval_strategy": "no", "eval_on_start": True}, _LOSSES),
        ({"do_eval": True}, _LOSSES),
        ({"do_eval": False}, None),
        (_STEPS | {"per_device_eval_batch_size": 64}, {"batch_size": 64, "kept_batches": 0}),
        (_STEPS | {"eval_accumulation_steps": 4}, {"batch_size": 8, "kept_batches": 4}),
        (
            _STEPS | {"eval_accumulation_steps": 4, "prediction_loss_only": True},
            _LOSSES,
        ),
        (
            _STEPS | {"batch_eval_metrics": True, "eval_accumulation_steps": 4},
            {"batch_size": 8, "kept_batches": 1},
        ),
        (_STEPS | {"metric_for_best_model": "eval_loss"}, _LOSSES),
        (_STEPS | {"metric_for_best_model": "accuracy"}, {"batch_size": 8}),
        (_STEPS | {"predict_with_generate": True}, None),
    ],
)
def test_trainer_evaluates_as_its_arguments_say(
    arguments: dict[str, object], evaluation: Mapping[str, object] | None
) -> None:
    """Batches of eight where nothing is said, and logits where metrics read them."""
    given = _TRAIN | arguments

    assert import_evaluation(launcher="trainer", arguments=given) == evaluation


@pytest.mark.parametrize(
    ("launcher", "arguments", "evaluation"),
    [
        ("trl_sft", {}, _LOSSES),
        ("trl_sft", {"eval_accumulation_steps": 2}, _LOSSES),
        ("trl_sft", {"compute_metrics": "f", "eval_accumulation_steps": 2}, {"kept_batches": 2}),
        ("trl_dpo", {"metric_for_best_model": "eval_rewards/accuracies"}, _LOSSES),
        ("trl_kto", {"compute_metrics": "f"}, _LOSSES),
        ("trl_reward", {}, _LOSSES),
        ("trl_grpo", {"max_completion_length": 64}, None),
    ],
)
def test_trl_asks_for_losses_alone(
    launcher: str, arguments: dict[str, object], evaluation: Mapping[str, object] | None
) -> None:
    """Its scripts compute no metrics from logits; a policy's evaluation generates."""
    given = _TRAIN | _STEPS | arguments
    found = import_evaluation(launcher=launcher, arguments=given)

    assert found == (None if evaluation is None else {"batch_size": 8, **evaluation})


@pytest.mark.parametrize(
    ("text", "evaluation"),
    [
        ("val_set_size: 0.1\n", None),
        ("eval_steps: 10\n", None),
        ("val_set_size: 0.0\neval_strategy: epoch\n", None),
        ("val_set_size: 0.1\neval_steps: 10\n", {"batch_size": 2}),
        ("val_set_size: 0.1\neval_strategy: epoch\n", {"batch_size": 2}),
        ("val_set_size: 0.1\neval_strategy: no\n", None),
        ("val_set_size: 0.1\nevals_per_epoch: 4\n", {"batch_size": 2}),
        ("val_set_size: 0.1\nevals_per_epoch: 1\n", None),
        ("val_set_size: 0.1\nevals_per_epoch: 1\nnum_epochs: 3\n", {"batch_size": 2}),
        ("val_set_size: 0.1\neval_steps: 10\neval_batch_size: 16\n", {"batch_size": 16}),
        (
            "val_set_size: 0.1\neval_steps: 10\neval_batch_size: 16\nsample_packing: true\n",
            {"batch_size": 2},
        ),
        (_UNPACKED, {"batch_size": 16}),
        (
            "test_datasets: [{path: x}]\neval_steps: 10\neval_sequence_len: 512\n",
            {"batch_size": 2, "sequence_length": 512},
        ),
        (
            f"val_set_size: 0.1\neval_steps: 10\n{_LIGER}",
            {"batch_size": 2, "loss": "full_logits"},
        ),
        (f"val_set_size: 0.1\neval_steps: 10\nrl: dpo\n{_LIGER}", {"batch_size": 2}),
    ],
)
def test_axolotl_evaluates_where_it_has_data_and_steps(
    text: str, evaluation: Mapping[str, object] | None
) -> None:
    """Batches are those of training unless it is said; its Liger makes logits in an evaluation."""
    found = import_evaluation(launcher="axolotl", files={"train.yaml": _AXOLOTL + text})

    assert found == (None if evaluation is None else {"kept_batches": 0, **evaluation})


@pytest.mark.parametrize(
    ("text", "evaluation"),
    [
        ("", None),
        ("do_eval: true\n", _LOSSES),
        ("eval_strategy: steps\nper_device_eval_batch_size: 1\n", _LOSSES | {"batch_size": 1}),
        ("eval_strategy: steps\ncompute_accuracy: true\n", _LOSSES),
        ("eval_strategy: steps\npredict_with_generate: true\n", None),
        (
            "eval_strategy: steps\nenable_liger_kernel: true\n",
            _LOSSES | {"loss": "full_logits"},
        ),
    ],
)
def test_llama_factory_evaluates_as_its_trainer_does(
    text: str, evaluation: Mapping[str, object] | None
) -> None:
    """Its kernels of Liger are none that Trainer knows of."""
    files = {"train.yaml": _FACTORY + text}

    assert import_evaluation(launcher="llamafactory", files=files) == evaluation


def test_batches_of_metrics_that_nobody_counts_are_missing() -> None:
    """A number that decides is never guessed; the request says it."""
    given = _TRAIN | _STEPS | {"compute_metrics": "accuracy"}
    field = "workload.evaluation.kept_batches"

    asked = ask(launcher="trainer", arguments=given, gpu="H100")
    said = ask(
        launcher="trainer",
        arguments=given,
        gpu="H100",
        workload={"evaluation": {"kept_batches": 7}},
    )

    assert asked.missing == (field,)
    assert any(question.field == field for question in asked.questions)
    assert said.missing == ()
    assert get_workload(said)["evaluation"]["kept_batches"] == 7


def test_what_is_kept_beside_logits_is_named() -> None:
    """Every setting of an evaluation is read, without effect or named."""
    given = _TRAIN | _STEPS | {"include_for_metrics": ["inputs"], "bf16_full_eval": True}
    imported = import_launch(launcher=Launcher.TRAINER, arguments=given)

    assert imported.ignored == ("include_for_metrics",)
    assert "bf16_full_eval" in imported.without_effect


@pytest.mark.parametrize("strategy", ["sometimes", True, 3])
def test_a_strategy_that_trainer_does_not_have_is_refused(strategy: object) -> None:
    """Nobody says then when it would run."""
    with pytest.raises(LaunchFormatError, match="expected one of no, steps, epoch"):
        import_launch(
            launcher=Launcher.TRAINER,
            arguments={"model_name_or_path": "m", "eval_strategy": strategy},
        )
