"""``headroom how-many``: the fewest GPUs and why fewer fail, without a server."""

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest

from service.__main__ import main

TRAIN = (
    "how-many",
    "llama-2-7b",
    "--gpu",
    "A100-SXM4-80GB",
    "--task",
    "train",
    "--sequence-length",
    "4096",
)
SERVE = (
    "how-many",
    "llama-2-70b",
    "--gpu",
    "A100-SXM4-80GB",
    "--task",
    "serve",
    "--num-sequences",
    "4",
    "--prompt-tokens",
    "9",
)


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> Mapping[str, Any]:
    """Return what a command printed as JSON."""
    main([*arguments, "--json"])
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def test_a_number_is_found_and_smaller_ones_are_explained(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Every number below the answer has a reason."""
    found = answer(capsys, *TRAIN)

    assert found["num_gpus"] > 1
    assert [miss["num_gpus"] for miss in found["rejected"]][-1] == found["num_gpus"] - 1
    assert all(miss["reason"] and miss["missing_bytes"] > 0 for miss in found["rejected"])


def test_a_candidate_fits_when_it_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    """What how-many proposes, said with flags, is what fit calls a fit, to the byte."""
    candidate = answer(capsys, *TRAIN)["candidates"][0]
    words = {**candidate["workload"], **candidate["layout"]}
    layout = (
        "data_parallel",
        "tensor_parallel",
        "pipeline_parallel",
        "context_parallel",
        "zero_stage",
        "sharding",
    )
    work = (
        "framework",
        "activation_checkpointing",
        "micro_batch_size",
        "gradient_accumulation_steps",
    )
    said = [
        part
        for name in (*work, *layout)
        for part in (f"--{name.replace('_', '-')}", str(words[name]))
    ]
    said += ["--sequence-parallel"] if words["sequence_parallel"] else []
    found = answer(capsys, "fit", *TRAIN[1:], *said)

    assert found["verdict"] == "fits"
    assert found["per_gpu"]["device_bytes"] == candidate["device_bytes"]


def test_what_is_said_is_kept(capsys: pytest.CaptureFixture[str]) -> None:
    """A stage that is named is not searched."""
    found = answer(capsys, *TRAIN, "--zero-stage", "3")

    assert {candidate["layout"]["zero_stage"] for candidate in found["candidates"]} == {3}


def test_none_is_an_answer_with_code_one(capsys: pytest.CaptureFixture[str]) -> None:
    """What the request allows is too little: which number is enough stands in the headline, and
    the exit code says that the question has none.
    """
    assert main([*SERVE, "--max-gpus", "1"]) == 1
    shown = capsys.readouterr().out

    assert "1 GPU is not enough, 2 are" in shown
    assert "weights alone need" in shown


def test_a_shell_gets_the_number_alone(capsys: pytest.CaptureFixture[str]) -> None:
    """``--count`` prints a number and nothing else; where none is enough stdout stays empty, the
    reason is on stderr and the code is 1; GPUs that differ are an error, code 2.
    """
    codes = (main([*TRAIN, "--count"]), main([*SERVE, "--max-gpus", "1", "--count"]))
    printed = capsys.readouterr()
    family = main([part if part != "A100-SXM4-80GB" else "A100" for part in TRAIN] + ["--count"])
    refused = capsys.readouterr()

    assert codes == (0, 1)
    assert printed.out == f"{answer(capsys, *TRAIN)['num_gpus']}\n"
    assert "1 GPU is not enough, 2 are" in printed.err
    assert (family, refused.out) == (2, "")
    assert "A100-SXM4-40GB: 4" in refused.err


def test_a_family_is_answered_once_per_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    """A name that means several GPUs gets an answer for each."""
    arguments = [part if part != "A100-SXM4-80GB" else "A100" for part in TRAIN]
    found = answer(capsys, *arguments)

    assert {"A100-SXM4-40GB", "A100-SXM4-80GB"} <= {plan["gpu"] for plan in found["answers"]}
    assert main(arguments) == 0
    assert capsys.readouterr().out.count("llama-2-7b on A100") == len(found["answers"])


def test_ranks_of_every_split_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """What the table says of a layout multiplies to the number of GPUs: stages of a pipeline stand
    beside slices of tensors.
    """
    serve = ("how-many", "deepseek-v3", "--gpu", "H200", "--task", "serve", "--engine", "sglang")
    assert (
        main([*serve, "--num-sequences", "16", "--prompt-tokens", "1024", "--output-tokens", "100"])
        == 0
    )
    shown = capsys.readouterr().out.splitlines()
    heads, row = (next(line for line in shown if word in line) for word in ("data parallel", "GiB"))

    assert "6 GPUs" in shown[0]
    assert re.split(r" {2,}", heads.strip())[:3] == ["tensor", "pipeline", "data parallel"]
    assert row.split()[:3] == ["2", "3", "1"]


@pytest.mark.parametrize("question", [[*TRAIN], ["plan", TRAIN[1], "--gpus", *TRAIN[3:]]])
def test_what_is_recomputed_is_shown_as_it_is_said(
    capsys: pytest.CaptureFixture[str], question: list[str]
) -> None:
    """An object of the contract is shown as the word of its flag."""
    fixed = (
        "--framework",
        "torchtitan",
        "--sharding",
        "fsdp2",
        "--zero-stage",
        "3",
        "--data-parallel",
        "2",
        "--tensor-parallel",
        "1",
    )
    assert main([*question, *fixed, "--activation-checkpointing", "selective:2"]) == 0
    shown = capsys.readouterr().out

    assert " selective:2 " in shown
    assert "{" not in shown


def test_limits_bound_the_search(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing above the limit is tried, and a limit that is none is refused with its flag."""
    assert answer(capsys, *TRAIN, "--max-gpus", "1")["num_gpus"] is None
    assert main([*TRAIN, "--max-gpus", "0"]) == 2

    assert "--max-gpus" in capsys.readouterr().err
