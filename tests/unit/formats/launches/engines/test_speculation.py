"""Heads that guess tokens, as launches of vLLM say them."""

import pytest

from service.formats.launches.values.errors import LaunchFormatError
from tests.unit.formats.launches.asking import ask_command, get_workload

SERVE = "vllm serve meta-llama/Llama-2-7b-hf"
READ: list[tuple[str, dict[str, object]]] = [
    ("--spec-method mtp --spec-tokens 2", {"num_tokens": 2, "head": "mtp"}),
    ("""--speculative-config '{"method": "deepseek_mtp"}'""", {"num_tokens": 1, "head": "mtp"}),
    ("--spec-method eagle --spec-model x/y --spec-tokens 3", {"num_tokens": 3, "head": "eagle"}),
    (
        "--spec-method eagle3 --spec-model x/y --spec-tokens 3",
        {"num_tokens": 3, "head": "eagle3"},
    ),
    (
        "--spec-model yuhuili/EAGLE-LLaMA3-Instruct-8B --spec-tokens 2",
        {"num_tokens": 2, "head": "eagle"},
    ),
    (
        "--spec-model AngelSlim/Qwen3-8B_eagle3 --spec-tokens 2",
        {"num_tokens": 2, "head": "eagle3"},
    ),
]


@pytest.mark.parametrize(("flags", "speculative"), READ)
def test_a_method_is_a_head(flags: str, speculative: dict[str, object]) -> None:
    """Its name says which, and a checkpoint's name where nobody does."""
    question = ask_command(f"{SERVE} {flags}")

    assert get_workload(question)["speculative"] == speculative
    assert question.imported.ignored == ()


@pytest.mark.parametrize("method", ["medusa", "gemma4_mtp", "dspark", "of_tomorrow"])
def test_other_ways_to_guess_are_ignored_by_name(method: str) -> None:
    """What has no term sets no field."""
    question = ask_command(f"{SERVE} --spec-method {method} --spec-model x/y --spec-tokens 2")

    assert len(question.imported.ignored) == 3
    assert "speculative" not in get_workload(question)


def test_sampled_drafts_are_ignored_by_name() -> None:
    """Their logits are kept, which has no term; greedy ones are the default."""
    config = '{"method": "mtp", "draft_sample_method": "%s"}'
    launch = f"{SERVE} --speculative-config '{config}'"

    assert ask_command(launch % "probabilistic").imported.ignored
    assert ask_command(launch % "greedy").imported.ignored == ()


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ("--spec-method eagle3 --spec-model a/b", "num_speculative_tokens"),
        ("--spec-method eagle3 --spec-tokens 3", "the checkpoint of the head"),
    ],
)
def test_half_a_head_is_refused(flags: str, expected: str) -> None:
    """A head needs its checkpoint, and says how far it guesses."""
    with pytest.raises(LaunchFormatError) as caught:
        ask_command(f"{SERVE} {flags}")

    assert expected in caught.value.message


def test_the_config_of_a_head_is_asked_for() -> None:
    """No catalogue has heads: whoever asks brings the config along, or names the hub's."""
    launch = f"{SERVE} --spec-method eagle3 --spec-model a/b --spec-tokens 3"
    draft = {"hf_config": {"model_type": "llama"}}

    asked = ask_command(launch)
    said = ask_command(launch, workload={"speculative": {"draft": draft}})

    assert "workload.speculative.draft" in asked.missing
    assert "hub:a/b" in next(
        entry.why for entry in asked.questions if entry.field == "workload.speculative.draft"
    )
    assert "workload.speculative.draft" not in said.missing
    assert get_workload(said)["speculative"] == {"num_tokens": 3, "head": "eagle3", "draft": draft}
