"""Whether a model can be served at all: the question without a load."""

import json

import pytest

from service.__main__ import main

_LOAD = ("--task", "serve", "--num-sequences", "1", "--prompt-tokens", "512")
_MODEL = ("llama-2-7b", "--gpu", "RTX-4090")


def ask(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Return the code of a command, and what it printed."""
    code = main([*arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.parametrize("words", [(), ("--task", "serve"), ("--weight-dtype", "bf16")])
def test_a_fit_without_a_load_is_one_request(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    """The answer is that of the load, which is told on stderr."""
    code, answer, told = ask(capsys, "fit", *_MODEL, *words, "--json")
    _, same, silent = ask(capsys, "fit", *_MODEL, *_LOAD, "--json")

    assert (code, json.loads(answer)["per_gpu"]) == (0, json.loads(same)["per_gpu"])
    assert "whether one request of 512 tokens can be served; say --num-sequences" in told
    assert ("--task train" in told) is (words == ())
    assert silent == ""


def test_a_search_without_a_load_spreads_the_model(capsys: pytest.CaptureFixture[str]) -> None:
    """Its engine is one that shares weights between GPUs, which is told too."""
    question = ("how-many", "mixtral-8x7b", "--gpu", "A100-SXM4-80GB", "--json")
    _, answer, told = ask(capsys, *question)
    _, same, _ = ask(capsys, *question, *_LOAD, "--engine", "vllm")

    assert json.loads(answer)["num_gpus"] == json.loads(same)["num_gpus"] == 2
    assert "can be served with --engine vllm" in told


@pytest.mark.parametrize(
    ("words", "lacks"),
    [
        (("--num-sequences", "8"), "--prompt-tokens"),
        (("--task", "train"), "--sequence-length"),
        (("--micro-batch-size", "2"), "--sequence-length"),
        (("--format", "slurm"), "which task?"),
    ],
)
def test_part_of_a_load_is_asked_for_the_other(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], lacks: str
) -> None:
    """A number that nobody named beside one that somebody did would be a wrong answer."""
    code, _, told = ask(capsys, "fit", *_MODEL, *words)

    assert code == 2
    assert lacks in told


@pytest.mark.parametrize("bound", ["--global-batch-size", "--min-num-sequences"])
def test_a_bound_says_nothing_of_one_request(
    capsys: pytest.CaptureFixture[str], bound: str
) -> None:
    """What a search must reach belongs to a load, which is asked for."""
    code, _, told = ask(capsys, "how-many", *_MODEL, bound, "8")

    assert code == 2
    assert "which task?" in told
