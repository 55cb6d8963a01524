"""The wrapper of sbatch: what does not fit is not submitted, and whatever else is wrong holds nobody up."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

WRAPPER = Path(__file__).resolve().parents[3] / "deploy" / "slurm" / "headroom-sbatch"
FITS = "#HEADROOM llama-2-7b --gpu A100-SXM4-80GB --task serve --num-sequences 4 --prompt-tokens 512"
TOO_BIG = "#HEADROOM llama-2-70b --gpu T4 --task serve --num-sequences 4 --prompt-tokens 512"
UNKNOWN = "#HEADROOM no-such-model --gpu T4 --task serve --num-sequences 4 --prompt-tokens 512"


@pytest.fixture(name="path")
def programs(tmp_path: Path) -> str:
    """Return a path with an sbatch that says what it was given, and with `headroom`."""
    sbatch = tmp_path / "bin" / "sbatch"
    sbatch.parent.mkdir()
    sbatch.write_text('#!/bin/sh\necho "submitted $*"\n')
    sbatch.chmod(0o755)
    return f"{sbatch.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}"


def submit(path: str, job: Path, *head: str, mode: str = "") -> "subprocess.CompletedProcess[str]":
    """Submit a job with these lines in its head."""
    job.write_text("\n".join(["#!/bin/sh", *head, "srun train.py $(touch should-not-run)"]) + "\n")
    environment = {**os.environ, "PATH": path, "HEADROOM_SUBMIT": mode}
    return subprocess.run(
        [WRAPPER, "--gpus=1", job, "an argument"], env=environment, cwd=job.parent, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("head", "mode", "status", "is_submitted"),
    [
        ((), "", 0, True),
        ((FITS,), "", 0, True),
        ((FITS, TOO_BIG), "", 1, False),
        ((TOO_BIG,), "warn", 0, True),
        ((UNKNOWN,), "", 0, True),
        (("#HEADROOM $(touch ran) ; touch ran",), "", 0, True),
    ],
)
def test_a_job_is_asked_about_before_it_is_submitted(
    path: str, tmp_path: Path, head: tuple[str, ...], mode: str, status: int, *, is_submitted: bool
) -> None:
    """With every word that it came with, or not at all; nothing in its head is run."""
    job = tmp_path / "job.sh"
    done = submit(path, job, *head, mode=mode)

    assert done.returncode == status, done.stderr
    assert (done.stdout == f"submitted --gpus=1 {job} an argument\n") is is_submitted
    assert ("was not submitted" in done.stderr) is not is_submitted
    assert ("no answer" in done.stderr) is any(line not in {FITS, TOO_BIG} for line in head)
    assert not (tmp_path / "ran").exists()
