"""Measurements on the command line: what is missing or misspelt is told before a server is
asked.
"""

from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from service.__main__ import main
from service.contract.schemas.imports.measurements import MAX_IMPORT_BYTES
from tests.unit.formats.measured.reading_samples import SAMPLES

LOG = str(SAMPLES / "vllm_0_19.log")
TRAINING = ("--model", "llama-3.2-1b", "--task", "train", "--sequence-length", "2048")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("show",), "headroom measurements show ID"),
        (("show", "1", "2"), "headroom measurements show ID"),
        (("artifact", "1"), "headroom measurements artifact ID NAME [-o FILE]"),
        (
            ("list", "--sequence-length", "4"),
            "`headroom measurements list` takes no --sequence-length",
        ),
        (
            ("export", "--no-padding-mask"),
            "`headroom measurements export` takes no --no-padding-mask",
        ),
        (("--yes",), "`headroom measurements list` takes no --yes"),
        (("show", "1", "--family", "llama"), "`headroom measurements show` takes no --family"),
        (
            ("import", LOG, *TRAINING, "--family", "llama"),
            "`headroom measurements import` takes no --family",
        ),
        (("list", "llama-3.2-1b"), "list` takes no 'llama-3.2-1b'"),
        (("import", LOG), "what ran? give --model NAME"),
        (("import", LOG, "--model", "llama-3.2-1b"), "--task train|serve"),
        (
            ("import", LOG, "--model", "x", "--task", "serve", "--precision", "bf16"),
            "--precision is a word of --task train",
        ),
        (
            ("import", "no-such-file", *TRAINING),
            "cannot read no-such-file: No such file or directory",
        ),
    ],
)
def test_what_is_missing_is_named(
    arguments: tuple[str, ...], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A request that cannot be complete never leaves."""
    assert main(["measurements", *arguments]) == 2

    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("items", "code"), [([], 2), (["new"], 0), (["known"], 0), (["new", "refused"], 2)]
)
def test_a_file_in_which_nothing_is_found_is_no_success(
    items: list[str], code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Who imports every night must hear of an empty page as of a contradiction."""
    blank: dict[str, Any] = {
        "job": None,
        "gpu": None,
        "peaks": {},
        "prediction": None,
        "problems": [],
        "notes": [],
    }
    found = [{**blank, "status": status} for status in items]
    answer = {
        "format": "dcgm",
        "dry_run": False,
        "num_stored": 0,
        "items": found,
        "left_out": [],
        "num_left_out": 0,
    }
    transport = httpx.MockTransport(lambda _: httpx.Response(200, json=answer))
    monkeypatch.setattr(httpx, "Client", partial(httpx.Client, transport=transport))

    assert main(["measurements", "import", LOG, *TRAINING, "--yes"]) == code
    assert ("nothing of the job that you say was found in it" in capsys.readouterr().out) is (
        not items
    )


@pytest.mark.parametrize(
    ("flag", "value", "told"),
    [
        ("--match", "7", "'7' is no WORD=VALUE"),
        ("--environment", "torch=", "'torch=' is no WORD=VALUE"),
        ("--format", "dcgm", "unknown value 'dcgm'"),
        ("--sort", "errors", "Did you mean 'error'?"),
        ("--source", "prob", "Did you mean 'probe'?"),
    ],
)
def test_words_that_mean_nothing(
    flag: str, value: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The refusal shows what would be right."""
    with pytest.raises(SystemExit) as left:
        main(["measurements", "import", LOG, *TRAINING, f"{flag}={value}"])

    assert left.value.code == 2
    assert told in capsys.readouterr().err


def test_a_file_that_no_server_reads_is_not_sent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The refusal says what would do in its place."""
    path = tmp_path / "snapshot.pickle"
    with path.open("wb") as file:
        file.write(b"\x80\x04\xff")
        file.truncate(MAX_IMPORT_BYTES)

    assert main(["measurements", "import", str(path), *TRAINING]) == 2

    assert "torch.cuda.memory_stats()" in capsys.readouterr().err
