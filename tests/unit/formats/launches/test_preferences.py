"""Arguments of TRL's trainers: references, losses, and what decides nothing."""

import pytest

from service.formats.launches.values.launch import ImportedLaunch, Launcher
from tests.unit.formats.launches.importing import get_part, import_launch

_SCRIPT = {"model": "a/b", "max_length": 2048, "per_device_train_batch_size": 4}


def _read(**arguments: object) -> ImportedLaunch:
    return import_launch(arguments=_SCRIPT | arguments, launcher=Launcher.TRL_KTO)


@pytest.mark.parametrize(
    ("arguments", "reference"),
    [
        ({}, "model"),
        ({"peft": {"r": 8}}, "adapters_off"),
        ({"precompute_ref_log_probs": True, "precompute_ref_batch_size": 8}, "precomputed"),
    ],
)
def test_kto_compares_with_a_reference(arguments: dict[str, object], reference: str) -> None:
    """It is a second model, the same without adapters, or the data set's."""
    workload = get_part(_read(**arguments), "workload")

    assert (workload["trainer"], workload["reference"]) == ("kto", reference)
    assert (workload["micro_batch_size"], workload["sequence_length"]) == (4, 2048)
    assert workload["activation_checkpointing"] == "full"


def test_weights_of_the_loss_decide_nothing() -> None:
    """They name the trainer where nobody else does."""
    command = "python train.py --model_name_or_path a/b --desirable_weight 1.33 --beta 0.2"
    imported = import_launch(command=f"{command} --undesirable_weight 1 --loss_type kto")

    assert imported.launcher is Launcher.TRL_KTO
    assert {"--desirable_weight", "--undesirable_weight", "--beta"} <= set(imported.without_effect)
    assert imported.ignored == ()


def test_a_loss_without_its_kl_term_is_counted_with_it() -> None:
    """Its mismatched completions take more than it has, which is said."""
    imported = _read(loss_type="apo_zero_unpaired")

    (ignored,) = imported.ignored
    assert ignored.startswith("loss_type")


@pytest.mark.parametrize(
    ("launcher", "length", "loss"),
    [
        (Launcher.TRL_SFT, "max_length", "nll"),
        (Launcher.TRL_SFT, "max_seq_length", None),
        (Launcher.TRAINER, "max_length", None),
    ],
)
def test_liger_leaves_trl_its_loss(launcher: Launcher, length: str, loss: str | None) -> None:
    """TRL has the kernels of its layers alone, Trainer and TRL before 0.20 the loss too, which is
    our default.
    """
    arguments = {"model": "a/b", length: 2048, "use_liger_kernel": True}
    workload = get_part(import_launch(arguments=arguments, launcher=launcher), "workload")

    assert workload["kernels"] == "liger"
    assert workload.get("loss") == loss


@pytest.mark.parametrize(
    ("launcher", "arguments", "trainer"),
    [
        (Launcher.TRL_ORPO, {"beta": 0.1}, "orpo"),
        (Launcher.TRL_CPO, {"loss_type": "simpo", "simpo_gamma": 0.5}, "cpo"),
        (Launcher.TRL_CPO, {"loss_type": "simpo", "cpo_alpha": 0.0}, "simpo"),
        (Launcher.TRL_CPO, {"loss_type": "alphapo", "alpha": 0.2}, "simpo"),
    ],
)
def test_pairs_without_a_reference_have_a_loss_of_the_chosen_ones(
    launcher: Launcher, arguments: dict[str, object], trainer: str
) -> None:
    """SimPO's own has none, which its ``loss_type`` does not say: ``cpo_alpha`` is 1 by default."""
    imported = import_launch(arguments=_SCRIPT | arguments, launcher=launcher)
    workload = get_part(imported, "workload")

    assert (workload["trainer"], workload.get("reference")) == (trainer, None)
    assert (workload["micro_batch_size"], workload["sequence_length"]) == (4, 2048)
    assert "loss" not in workload
    assert imported.ignored == ()


@pytest.mark.parametrize(
    "launcher", [Launcher.TRL_DPO, Launcher.TRL_KTO, Launcher.TRL_ORPO, Launcher.TRL_CPO]
)
def test_an_older_release_holds_all_logits(launcher: Launcher) -> None:
    """An argument that only it had told the release, and its trainer was counted as the newest."""
    arguments = _SCRIPT | {"max_prompt_length": 512}
    imported = import_launch(arguments=arguments, launcher=launcher)

    assert get_part(imported, "workload")["loss"] == "selective"
    assert imported.versions["trl"] == "before 1.0"


def test_an_older_grpo_holds_all_logits_of_completions() -> None:
    """A prompt's length among its arguments tells a release before 1.0."""
    arguments = {"model": "a/b", "max_prompt_length": 512, "max_completion_length": 1024}
    launcher = Launcher.TRL_GRPO
    older = import_launch(arguments=arguments, launcher=launcher)
    newer = import_launch(arguments={"model": "a/b", "prompt_length": 512}, launcher=launcher)

    assert get_part(older, "workload")["loss"] == "selective"
    assert "loss" not in get_part(newer, "workload")
