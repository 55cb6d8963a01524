"""``headroom plan``: offline answers of POST /v1/plans, as tables and as JSON."""

import json
import re
from typing import Any

import pytest

from service.__main__ import main

PLAN = [
    "plan",
    "llama-2-7b",
    "--task",
    "train",
    "--sequence-length",
    "4096",
    "--max-gpus",
    "8",
    "--frameworks",
    "ddp,deepspeed",
]
KINDS = ["--gpus", "A100-SXM4-80GB,H100-SXM5-80GB"]


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    """Return what a command printed as JSON."""
    main([*arguments, "--json"])
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def test_a_plan_is_found_on_each_kind(capsys: pytest.CaptureFixture[str]) -> None:
    """The best of all kinds, with the others beside it in the order that was asked."""
    found = answer(capsys, *PLAN, *KINDS)

    assert found["num_gpus"] == 2
    assert [one["gpu"] for one in found["alternatives"]] == ["A100-SXM4-80GB", "H100-SXM5-80GB"]
    assert {candidate["workload"]["framework"] for candidate in found["candidates"]} == {
        "transformers"
    }


def test_flags_are_words_of_the_contract(capsys: pytest.CaptureFixture[str]) -> None:
    """Objective, prices, bounds and fixed words reach the search."""
    flags = (
        "--objective",
        "cheapest",
        "--price",
        "H100-SXM5-80GB=0.5",
        "--zero-stage",
        "3",
        "--global-batch-size",
        "24",
    )
    found = answer(capsys, *PLAN, *KINDS, *flags)

    assert found["gpu"] == "H100-SXM5-80GB"
    assert found["candidates"][0]["cost_per_hour"] == pytest.approx(0.5 * found["num_gpus"])
    for candidate in found["candidates"]:
        workload, layout = candidate["workload"], candidate["layout"]
        assert layout["zero_stage"] == 3
        assert (
            workload["micro_batch_size"]
            * workload["gradient_accumulation_steps"]
            * layout["data_parallel"]
            == 24
        )


def test_tables_say_what_and_why(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The number, the layouts, the other kinds, the front with its layouts, and the reasons."""
    monkeypatch.setenv("COLUMNS", "200")

    assert main([*PLAN, *KINDS, "--pareto"]) == 0
    shown = capsys.readouterr().out

    assert "llama-2-7b: 2 x" in shown
    for heading in (
        "on each kind of GPU",
        "beaten by no other",
        "why fewer are not enough",
        "considered",
    ):
        assert heading in shown
    front = shown[shown.index("beaten by no other") : shown.index("why fewer")]
    assert re.search(r"(deepspeed|fsdp\d|ddp) \d, (data|tensor) \d", front), "a row has its layout"


def test_a_kind_without_a_number_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    """A kind that nobody told the price of had no number, and no row said why."""
    kinds = ("--gpus", "A100-SXM4-80GB,MI300X", "--max-cost-per-hour", "20")

    assert main([*PLAN, *kinds]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "MI300X-192GB: max_cost_per_hour needs a price" in shown


def test_nothing_is_an_answer_with_code_one(capsys: pytest.CaptureFixture[str]) -> None:
    """That nothing is enough is told with the reason, and the exit code says so."""
    assert (
        main(
            [
                "plan",
                "llama-2-7b",
                "--gpus",
                "T4",
                "--task",
                "train",
                "--sequence-length",
                "4096",
                "--max-gpus",
                "1",
            ],
        )
        == 1
    )
    shown = capsys.readouterr().out

    assert "nothing that was offered is enough" in shown
    assert "max_gpus is 1" in shown


def test_a_gpu_without_a_name_and_a_slice_stand_beside_others(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What a fit takes for a GPU, a plan takes too: a slice, and a number of bytes."""
    words = ("--gpus", "A100-SXM4-80GB/1g.10gb", "--gpu-memory", "12Gi")

    found = answer(capsys, "plan", "gpt2", *words, "--task", "train", "--sequence-length", "128")

    offered = [kind["gpu"] for kind in found["alternatives"]]
    assert offered == ["A100-SXM4-80GB-MIG-1g.10gb", {"memory_bytes": 12 * 2**30}]


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ([], "which GPUs?"),
        (["--cluster", "prod-a"], "--server"),
        ([*KINDS, "--price", "H100-SXM5-80GB=cheap"], "is no number"),
        ([*KINDS, "--objective", "prettiest"], "unknown value"),
        (["--gpus", "H99"], "not in the catalogue"),
    ],
)
def test_what_makes_no_sense_is_refused(
    capsys: pytest.CaptureFixture[str], flags: list[str], words: str
) -> None:
    """Each refusal is one line with code 2."""
    try:
        code = main([*PLAN, *flags])
    except SystemExit as ended:
        code = int(ended.code or 0)

    assert code == 2
    assert words in capsys.readouterr().err
