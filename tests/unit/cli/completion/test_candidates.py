"""Completion: what may come next is what the parsers take."""

import pytest

from service.catalog.gpus import list_gpus
from service.cli.command_table import COMMANDS
from service.cli.completion.candidates import FILES, list_candidates


def complete(line: str) -> list[str]:
    """Return the words that are offered at the end of a line."""
    *words, last = line.split(" ")
    return [word for word, _ in list_candidates(words[1:], last)]


def test_commands_come_first() -> None:
    """All of them, each with what it does."""
    assert complete("headroom ") == list(COMMANDS)
    assert list_candidates([], "fam") == [("families", COMMANDS["families"])]


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("headroom fit llama-2-13", "llama-2-13b"),
        ("headroom fit meta-llama/Llama-2-7b-h", "meta-llama/Llama-2-7b-hf"),
        ("headroom fit gpt2 --gpu h200-s", "H200-SXM5-141GB"),
        ("headroom fit gpt2 --gpu=H200-S", "--gpu=H200-SXM5-141GB"),
        ("headroom fit gpt2 --gpu = H200-S", "H200-SXM5-141GB"),
        ("headroom plan gpt2 --gpus L4,H200-S", "L4,H200-SXM5-141GB"),
        ("headroom fit gpt2 --task t", "train"),
        ("headroom fit gpt2 --optimizer ademamix_", "ademamix_8bit"),
        ("headroom fit gpt2 --engine v", "vllm"),
        ("headroom fit gpt2 --micro-b", "--micro-batch-size"),
        ("headroom fit gpt2 --no-padding-", "--no-padding-mask"),
        ("headroom ceilings gpt2 --maximize micro", "micro_batch_size"),
        ("headroom models sho", "show"),
        ("headroom models show llama-2-13", "llama-2-13b"),
        ("headroom families mixt", "mixtral"),
        ("headroom help workers", "workers"),
        ("headroom worker --device tr", "trace"),
        ("headroom completion fi", "fish"),
        ("headroom fit --config ", FILES),
    ],
)
def test_values_are_those_that_are_taken(line: str, offered: str) -> None:
    """Names of the catalogue, words of the contract, choices of a command, files."""
    assert complete(line) == [offered]


def test_a_flag_is_offered_once() -> None:
    """What was given may not be given again, nor may its opposite."""
    assert "--gpu" in complete("headroom fit gpt2 --")
    assert "--gpu" not in complete("headroom fit gpt2 --gpu L4 --")
    assert "--no-padding-mask" not in complete("headroom fit gpt2 --padding-mask --no")


def test_a_value_does_not_count_as_an_argument() -> None:
    """Behind `--gpu L4` the model is still missing; behind it flags are left."""
    assert "gpt2-xl" in complete("headroom fit --gpu L4 gpt2")
    assert all(word.startswith("--") for word in complete("headroom fit gpt2 "))


def test_every_gpu_is_offered() -> None:
    """The list is the catalogue's."""
    assert complete("headroom fit gpt2 --gpu ") == [entry.name for entry in list_gpus()]


@pytest.mark.parametrize("line", ["headroom ft --", "headroom fit gpt2 --gpu zzz", "headroom zzz"])
def test_nothing_is_offered_for_what_is_unknown(line: str) -> None:
    """No error disturbs whoever types."""
    assert complete(line) == []
