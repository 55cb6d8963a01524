"""``headroom ceilings``: the largest value that fits and what one more lacks, without a server."""

import json

import pytest

from service.__main__ import main

TRAIN = ("--gpu", "A100-SXM4-80GB", "--task", "train", "--method", "lora", "--precision", "bf16")


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """Return the exit code and what was printed, on one line."""
    code = main(["ceilings", *arguments])
    shown = capsys.readouterr()
    return code, " ".join((shown.out + shown.err).split())


def test_the_largest_value_fits_and_the_next_does_not(capsys: pytest.CaptureFixture[str]) -> None:
    """What is printed as the largest is what a fit at that value says too, and the next value has
    its reason.
    """
    question = (
        "llama-3.1-8b",
        *TRAIN,
        "--sequence-length",
        "4096",
        "--maximize",
        "micro_batch_size",
    )
    code, shown = said(capsys, *question)
    found = json.loads(said(capsys, *question, "--json")[1])
    value = found["value"]

    assert code == 0
    assert f"micro batch size up to {value} one GPU, checkpointing full" in shown
    assert found["next"]["reason"] in shown
    assert found["fit"]["verdict"] == "fits"
    fit = [
        "fit",
        "llama-3.1-8b",
        *TRAIN,
        "--sequence-length",
        "4096",
        "--activation-checkpointing",
        "full",
    ]
    assert main([*fit, "--micro-batch-size", str(value)]) == 0


def test_without_a_model_its_own_size_is_looked_for(capsys: pytest.CaptureFixture[str]) -> None:
    """How large a model a card can train needs no model; where one is named it is not dropped, but
    refused.
    """
    sized = (
        "--gpu",
        "RTX-4090",
        "--task",
        "train",
        "--sequence-length",
        "512",
        "--maximize",
        "num_parameters",
    )

    assert said(capsys, *sized)[1].startswith(
        "a model of its own size: number of parameters up to "
    )
    code, shown = said(capsys, "llama-2-7b", *sized)
    assert (code, "num_parameters" in shown, "Traceback" in shown) == (2, True, False)


def test_where_not_even_the_least_fits_the_code_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    """1 is "does not fit", as for a fit, with the bytes that the least value lacks."""
    code, shown = said(capsys, "llama-2-70b", *TRAIN[:4], "--maximize", "sequence_length")

    assert code == 1
    assert "no sequence length fits" in shown
    assert "more than a process can allocate" in shown


def test_what_is_to_be_maximised_has_to_be_said(capsys: pytest.CaptureFixture[str]) -> None:
    """Without it the words to choose from are told; a misspelt one gets the nearest."""
    assert (
        "give --maximize micro_batch_size|global_batch_size|"
        in said(capsys, "llama-2-7b", *TRAIN)[1]
    )
    with pytest.raises(SystemExit):
        main(["ceilings", "llama-2-7b", *TRAIN, "--maximize", "lora_rnk"])
    assert "Did you mean 'lora_rank'?" in capsys.readouterr().err


def test_what_decides_is_named_where_it_is_an_evaluation(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """No batch of a step would help where the logits of an evaluation do not fit."""
    words = ("pythia-70m", *TRAIN, "--sequence-length", "1024", "--maximize", "micro_batch_size")
    evaluated = ("--evaluation-batch-size", "8", "--evaluation-kept-batches", "300")

    _, shown = said(capsys, *words, *evaluated)

    assert "no micro batch size fits" in shown
    assert "in its evaluation, which has a batch of 8 and the logits of 300 batches" in shown
    assert "in its evaluation" not in said(capsys, *words, *evaluated[:2])[1]
