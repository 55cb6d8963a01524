"""``headroom fit``: the contract's answer without a server, as a table or as JSON, with an exit
code that scripts can use.
"""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from service.__main__ import main
from service.catalog.gpus import resolve_gpu
from service.catalog.models import load_architecture, load_config, resolve_model
from service.cli.views.phrases import format_change
from service.contract.schemas.fit import FitAnswer
from service.estimator.estimate import estimate
from service.estimator.values.layout import Layout
from service.estimator.values.result import Detail
from service.estimator.values.workload import TrainWorkload
from service.terminal.arguments import ERROR

TRAIN = (
    "fit",
    "llama-2-7b",
    "--gpu",
    "A100-SXM4-80GB",
    "--task",
    "train",
    "--sequence-length",
    "4096",
)
SMALL = ("fit", "gpt2", "--gpu", "A100-SXM4-80GB", "--task", "train", "--sequence-length", "128")


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> Mapping[str, Any]:
    """Return what a command printed as JSON."""
    main([*arguments, "--json"])
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def test_the_exit_code_is_the_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    """0 fits, 1 does not fit, 2 is an error that is told on stderr."""
    assert main(SMALL) == 0
    assert main(TRAIN) == 1
    capsys.readouterr()

    assert main([*TRAIN, "--optimizer", "adamww"]) == 2
    assert "Did you mean 'adamw'?" in capsys.readouterr().err


def test_it_says_what_the_estimator_says(capsys: pytest.CaptureFixture[str]) -> None:
    """The bytes are the estimator's own, for the defaults of the contract."""
    found = answer(capsys, *TRAIN)
    expected = estimate(
        load_architecture(resolve_model("llama-2-7b")),
        TrainWorkload(sequence_length=4096),
        layout=Layout(),
        device=resolve_gpu("A100-SXM4-80GB").to_device(),
        detail=Detail.REPLAYED,
    )

    assert found["per_gpu"]["device_bytes"] == expected.device_bytes
    assert sum(part["bytes"] for part in found["per_gpu"]["components"]) == expected.device_bytes


def test_json_is_the_contracts_answer(capsys: pytest.CaptureFixture[str]) -> None:
    """What ``--json`` prints has the fields and the types that POST /v1/fit documents."""
    found = answer(capsys, *TRAIN)

    assert json.loads(msgspec.json.encode(msgspec.convert(found, FitAnswer))) == found
    assert "workload.precision = bf16_mixed" in found["assumptions"]


def test_a_config_says_the_same_as_the_catalogue(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A config.json in a file gives the bytes of the catalogue model that has it."""
    config = tmp_path / "config.json"
    config.write_text(json.dumps(load_config(resolve_model("gpt2"))))
    from_file = ["fit", "--config", str(config), *SMALL[2:]]

    assert answer(capsys, *from_file)["per_gpu"] == answer(capsys, *SMALL)["per_gpu"]


def test_a_gpu_of_which_only_the_memory_is_known(capsys: pytest.CaptureFixture[str]) -> None:
    """Memory alone is enough for a verdict; the time of a step is unknown then."""
    found = answer(capsys, "fit", "gpt2", "--gpu-memory", "80Gi", *SMALL[4:])

    assert found["usable_bytes"] == 80 * 2**30
    assert found["throughput"] is None


def test_the_table_names_what_decides(capsys: pytest.CaptureFixture[str]) -> None:
    """The verdict, every component, every instant and what would help are on the screen."""
    main(TRAIN)
    shown = capsys.readouterr().out
    found = answer(capsys, *TRAIN)

    assert shown.startswith("llama-2-7b on A100-SXM4-80GB, 1 GPU: does not fit\n")
    names = [
        part["name"] for part in (*found["per_gpu"]["components"], *found["per_gpu"]["instants"])
    ]
    assert [name for name in names if name not in shown] == []
    assert all(name in shown for remedy in found["remedies"] for name in remedy["change"])


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--sequence-length", "-4"), "--sequence-length: expected an integer >= 1; got -4"),
        (("--gpu", "A100"), "say A100-SXM4-40GB (40.00 GiB) or A100-SXM4-80GB"),
        (("--gpu", "GTX 1080"), '--gpu-memory "8Gi"'),
        (("--gpu", "M3 Max"), "Apple silicon"),
        (("--gpu", "A100-SXM4-80GB/1g.5gb"), "it has: 1g.10gb, 1g.20gb"),
        (("--zero-stage", "4"), "--zero-stage"),
        (("--tensor-parallel", "3"), "--tensor-parallel"),
    ],
)
def test_refusals_name_the_flag_and_what_would_be_right(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], told: str
) -> None:
    """A value out of bounds, an ambiguous name and what is not modelled are refused in the words
    that were typed.
    """
    given = dict(zip(TRAIN[2::2], TRAIN[3::2], strict=True)) | {arguments[0]: arguments[1]}
    assert main([*TRAIN[:2], *(part for pair in given.items() for part in pair)]) == 2

    assert told in capsys.readouterr().err


@pytest.mark.parametrize("size", ["80GB", "80G"])
def test_two_readings_of_an_amount_are_both_named(
    capsys: pytest.CaptureFixture[str], size: str
) -> None:
    """A unit that has two meanings is refused with both numbers."""
    assert main(["fit", "gpt2", "--gpu-memory", size, *SMALL[4:]]) == 2

    told = capsys.readouterr().err
    assert "80000000000" in told
    assert "85899345920" in told


def test_a_change_is_told_in_the_contracts_words() -> None:
    """Nested changes are told by their path."""
    assert (
        format_change({"method": "lora", "lora": {"rank": 16}}) == "method = lora, lora.rank = 16"
    )


@pytest.mark.parametrize(("flags", "drawn_with"), [([], ["rich"]), (["--json"], [])])
def test_a_cold_answer_loads_only_what_it_needs(flags: list[str], drawn_with: list[str]) -> None:
    """Offline, no web framework, database, HTTP client, search or recording is loaded for what
    fits, and for JSON nothing that draws.
    """
    script = (
        "import sys; from service.__main__ import main; code = main(sys.argv[1:]);heavy = "
        "{'litestar', 'sqlalchemy', 'psycopg', 'httpx', 'structlog', 'rq', 'redis', 'torch', "
        "'numpy', 'rich','service.planner.search.search', "
        "'service.usecases.questions.how_many', 'service.estimator.tape.programs.program', "
        "'service.estimator.model.recorded.recorded_model'}; "
        "print(*sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )
    command = [sys.executable, "-c", script, *SMALL, *flags]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stderr

    assert told.split() == drawn_with


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("no-such-model", "`headroom models` and GET /v1/models list every name"),
        ("llama-2-7bb", "Did you mean llama-2-7b?"),
        ("llama-9-7b", "Other models of its family: "),
    ],
)
def test_an_unknown_model_is_told_with_where_else_to_look(
    capsys: pytest.CaptureFixture[str], name: str, told: str
) -> None:
    """A name that is near is told, and always the way to all names and to those of a server."""
    assert main(["fit", name, *TRAIN[2:]]) == 2

    said = capsys.readouterr().err
    assert told in said
    assert "--server URL" in said


def test_an_engine_that_does_not_start_has_nothing_left(capsys: pytest.CaptureFixture[str]) -> None:
    """What the sequences need is less than the budget, and one of the longest is more: no line says
    both fit and not.
    """
    served = (
        "--task",
        "serve",
        "--engine",
        "vllm",
        "--num-sequences",
        "4",
        "--prompt-tokens",
        "1024",
        "--output-tokens",
        "100",
    )
    code = main(
        ["fit", "qwen3-30b-a3b", "--gpu", "H100-SXM5-80GB", *served, "--max-model-len", "262144"]
    )
    shown = " ".join(capsys.readouterr().out.split())

    assert code == 1
    assert "but the engine does not start, as the warning says" in shown
    assert " left" not in shown.partition(" component ")[0]
    assert "warning: the engine does not start: its pool has no room for one sequence" in shown


def test_lengths_are_a_list_or_a_histogram(capsys: pytest.CaptureFixture[str]) -> None:
    """Both say the same, and the worst batch is named."""
    listed, counted = (
        answer(capsys, *SMALL, "--micro-batch-size", "64", "--sequence-lengths", lengths)
        for lengths in ("64,32,32", "32:2,64:1")
    )

    assert listed["per_gpu"] == counted["per_gpu"]
    assert any(line.startswith("worst batch = ") for line in listed["assumptions"])
    assert (
        listed["per_gpu"]["device_bytes"]
        < answer(capsys, *SMALL, "--micro-batch-size", "64")["per_gpu"]["device_bytes"]
    )


def test_a_cluster_is_a_servers(capsys: pytest.CaptureFixture[str]) -> None:
    """What was measured on one is stored there, and no answer made here has it."""
    code = main([*SMALL, "--cluster", "lab", "--offline"])

    assert code == ERROR
    assert "clusters are stored on a server" in capsys.readouterr().err
