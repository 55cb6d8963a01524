"""``headroom explain``: a log in a few lines, or as JSON, with codes for scripts."""

import io
import json
import sys
from pathlib import Path

import pytest

from service.__main__ import main
from service.api.resources.explain import EXAMPLE


@pytest.fixture(name="log")
def write_log(tmp_path: Path) -> str:
    """Write a log that ends with a failure."""
    path = tmp_path / "oom.log"
    path.write_text(f"step 1\n{EXAMPLE['content']}\n")
    return str(path)


def test_a_log_is_explained_in_a_few_lines(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What happened with its line, why, and what to set."""
    code = main(["explain", log])

    out = capsys.readouterr().out
    lines = out.splitlines()
    assert code == 0
    assert " ".join(out.split()).startswith(f"{log}:2: the GPU's memory ran out")
    assert any(line.startswith("why        fragmentation (certain): ") for line in lines)
    assert "change     PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True" in lines
    assert len(lines) < 15


def test_stdin_and_json(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer of the API, of what comes through a pipe."""
    message = b"RuntimeError: CUDA error: an illegal memory access was encountered"
    stdin = io.TextIOWrapper(io.BufferedReader(io.BytesIO(message)))
    monkeypatch.setattr(sys, "stdin", stdin)

    code = main(["explain", "-", "--json"])

    answer = json.loads(capsys.readouterr().out)
    assert code == 1
    assert (answer["memory"], answer["causes"][0]["name"]) == ("none", "not_memory")


def test_a_question_shows_predicted_beside_read(
    log: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The words of ``headroom fit`` say what ran."""
    words = "llama-3.2-1b --gpu T4 --task train --sequence-length 512 --method lora --lora-rank 8"

    code = main(["explain", log, *words.split()])

    out = capsys.readouterr().out
    assert code == 0
    assert "predicted  " in out
    assert "allocated: read at least 12.41 GiB, predicted " in out


def test_a_launch_file_says_what_ran(
    log: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Flags say what it leaves open."""
    arguments = tmp_path / "arguments.json"
    arguments.write_text('{"per_device_train_batch_size": 1, "bf16": true}')
    words = f"gpt2 --gpu T4 --from {arguments} --launcher trainer --sequence-length 128"

    code = main(["explain", log, *words.split()])

    assert code == 0
    assert "predicted  fits: " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--gpu", "L4"], "--gpu says what ran, and no model does"),
        (["llama-2-7b", "--gpu", "L4"], "which task?"),
        (["llama-2-7b", "--gpu", "A100", "--task", "train", "--sequence-length", "9"], "A100-PCIE"),
    ],
)
def test_half_a_question_is_refused(
    log: str, arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """On stderr, with code 2."""
    assert main(["explain", log, *arguments]) == 2
    assert says in capsys.readouterr().err


def test_what_tells_nothing_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nor is a file that is not there explained."""
    path = tmp_path / "fine.log"
    path.write_text("all is well\n")

    assert main(["explain", str(path)]) == 2
    assert main(["explain", str(tmp_path / "none.log")]) == 2
    err = capsys.readouterr().err
    assert "no failure is told in 1 line" in err
    assert "cannot read" in err
