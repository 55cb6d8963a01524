"""``headroom plan --format``: the best plan alone, as a scheduler's client reads it."""

import pytest
import yaml

from service.__main__ import main
from service.cli.commands.schedulers.formats import FORMATS as WORDS
from service.formats.manifests.registry import FORMATS

QUESTION = ("--task", "train", "--method", "lora", "--sequence-length", "512", "--offline")


def test_the_command_knows_the_words_of_the_registry() -> None:
    """The same words as over HTTP, in the order of the table."""
    assert tuple(FORMATS) == WORDS


def test_stdout_is_what_kubectl_reads(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing but the objects, so that it can be piped."""
    code = main(
        [
            "plan",
            "gpt2",
            "--gpus",
            "L4",
            *QUESTION,
            "--format",
            "kueue",
            "--container-image",
            "registry.example/mine:7",
        ]
    )
    (job,) = yaml.safe_load_all(capsys.readouterr().out)

    assert (code, job["kind"], job["spec"]["suspend"]) == (0, "Job", True)
    assert job["spec"]["template"]["spec"]["containers"][0]["image"] == "registry.example/mine:7"


def test_where_nothing_is_enough_nothing_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """The reason is on stderr and the code that of a plan that does not fit."""
    code = main(
        [
            "plan",
            "llama-3.1-8b",
            "--gpus",
            "L4",
            "--task",
            "train",
            "--sequence-length",
            "512",
            "--max-gpus",
            "1",
            "--offline",
            "--format",
            "slurm",
        ]
    )
    printed = capsys.readouterr()

    assert (code, printed.out) == (1, "")
    assert "there is no plan to print: max_gpus is 1" in printed.err


def test_a_format_that_cannot_carry_the_plan_is_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In its own words, without the notes of the launch."""
    code = main(["plan", "gpt2", "--gpus", "Gaudi2-96GB", *QUESTION, "--format", "kueue"])
    printed = capsys.readouterr()

    assert (code, printed.out) == (2, "")
    assert printed.err.startswith("headroom: kueue: a pod needs an image")
