"""Older releases of TRL: told by arguments that later ones lack, with their own defaults."""

import pytest

from service.formats.launches.values.launch import ImportedLaunch, Launcher
from tests.unit.formats.launches.importing import get_part, import_launch


def _import(launcher: Launcher, **arguments: object) -> ImportedLaunch:
    """Return the question of a script's arguments."""
    return import_launch(arguments={"model": "a/b", **arguments}, launcher=launcher)


@pytest.mark.parametrize(
    ("launcher", "arguments", "checkpointing", "precision"),
    [
        (Launcher.TRL_SFT, {"max_length": 512}, "full", "amp_bf16"),
        (Launcher.TRL_SFT, {"max_seq_length": 512}, "none", None),
        (Launcher.TRL_SFT, {"use_liger": True}, "none", "fp32"),
        (Launcher.TRL_DPO, {"max_prompt_length": 256}, None, None),
    ],
)
def test_an_old_argument_has_old_defaults(
    launcher: Launcher,
    arguments: dict[str, object],
    checkpointing: str | None,
    precision: str | None,
) -> None:
    """Checkpointing is on since 0.22 and bf16 since 0.19; what is open has no value."""
    workload = get_part(_import(launcher, **arguments), "workload")

    assert workload.get("activation_checkpointing") == checkpointing
    assert workload.get("precision") == precision


@pytest.mark.parametrize(
    ("launcher", "arguments", "asked"),
    [
        (Launcher.TRL_SFT, {"max_length": 512}, set()),
        (Launcher.TRL_SFT, {"max_seq_length": 512}, {"workload.precision"}),
        (
            Launcher.TRL_DPO,
            {"max_prompt_length": 256},
            {"workload.precision", "workload.activation_checkpointing"},
        ),
        (
            Launcher.TRL_DPO,
            {"max_prompt_length": 256, "bf16": True, "gradient_checkpointing": True},
            set(),
        ),
    ],
)
def test_what_an_old_argument_leaves_open_is_asked(
    launcher: Launcher, arguments: dict[str, object], asked: set[str]
) -> None:
    """A default that changed within the releases that have the argument is a question."""
    imported = _import(launcher, **arguments)

    assert {question.field for question in imported.questions} == asked


def test_the_release_is_told() -> None:
    """Whoever reads the answer sees whose defaults hold, and why."""
    imported = _import(Launcher.TRL_SFT, max_seq_length=512)

    assert imported.versions["trl"] == "before 0.20"
    assert "TRL has max_seq_length before 0.20: defaults are those of such a release" in (
        imported.warnings
    )


def test_an_older_grpo_generates_less_and_by_a_server() -> None:
    """Before 1.0 a completion has 256 tokens, and vLLM GPUs of its own."""
    workload = get_part(
        _import(Launcher.TRL_GRPO, max_prompt_length=256, use_vllm=True), "workload"
    )

    assert workload["sequence_length"] == 512
    assert "rollout" not in workload
