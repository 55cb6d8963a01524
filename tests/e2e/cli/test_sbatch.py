"""The wrapper of sbatch: what does not fit is not submitted, and whatever else is wrong holds
nobody up.
"""

import os
import subprocess
from pathlib import Path

import pytest

from tests.running.forked import put_on_path

WRAPPER = Path(__file__).resolve().parents[3] / "deploy" / "slurm" / "headroom-sbatch"
FITS = (
    "#HEADROOM llama-2-7b --gpu A100-SXM4-80GB --task serve --num-sequences 4 --prompt-tokens 512"
)
TOO_BIG = "#HEADROOM llama-2-70b --gpu T4 --task serve --num-sequences 4 --prompt-tokens 512"
UNKNOWN = "#HEADROOM no-such-model --gpu T4 --task serve --num-sequences 4 --prompt-tokens 512"


@pytest.fixture(name="path", scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a path with an sbatch that says what it was given, and with `headroom`."""
    sbatch = tmp_path_factory.mktemp("bin") / "sbatch"
    sbatch.write_text('#!/bin/sh\necho "submitted $*"\n[ -t 0 ] || cat\n')
    sbatch.chmod(0o755)
    return f"{sbatch.parent}:{put_on_path()}:{os.environ['PATH']}"


def submit(path: str, job: Path, *head: str, mode: str = "") -> "subprocess.CompletedProcess[str]":
    """Submit a job with these lines in its head."""
    job.write_text("\n".join(["#!/bin/sh", *head, "srun train.py $(touch should-not-run)"]) + "\n")
    environment = {**os.environ, "PATH": path, "HEADROOM_SUBMIT": mode}
    return run(environment, job.parent, "--gpus=1", str(job), "an argument")


def run(
    environment: dict[str, str], directory: Path, *arguments: str, text: str = ""
) -> "subprocess.CompletedProcess[str]":
    """Run the wrapper with a job, or nothing, on its stdin."""
    command = [str(WRAPPER), *arguments]
    return subprocess.run(
        command,
        env=environment,
        cwd=directory,
        input=text,
        capture_output=True,
        text=True,
        check=False,
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


@pytest.fixture(name="told", scope="module")
def recorder(path: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return an environment in which `headroom` takes no time: it refuses, and says what it was
    asked.
    """
    headroom = tmp_path_factory.mktemp("headroom") / "headroom"
    headroom.write_text('#!/bin/sh\ncat >&2\necho "asked $*" >&2\nexit 1\n')
    headroom.chmod(0o755)
    return {**os.environ, "PATH": f"{headroom.parent}:{path}"}


@pytest.mark.parametrize(
    "words",
    [
        "job.sh",
        "-o out.txt job.sh",
        "-oout.txt job.sh out.txt",
        "--output out.txt job.sh",
        "--outp out.txt job.sh",
        "--output=out.txt job.sh",
        "-HQ job.sh",
        "-Hn 4 -vo out.txt job.sh",
        "--hold --no-kill --exclusive job.sh",
        "-so out.txt -koff job.sh out.txt",
        "-N1 : -o out.txt job.sh",
        "-J name -- job.sh",
    ],
)
def test_the_job_is_found_among_the_words_of_sbatch(
    told: dict[str, str], tmp_path: Path, words: str
) -> None:
    """A file that an option names, such as the output of the last run, is not taken for it."""
    (tmp_path / "out.txt").write_text("what the last run said\n")
    (tmp_path / "job.sh").write_text("#!/bin/sh\n#HEADROOM the question\n")
    done = run(told, tmp_path, *words.split())

    assert (done.returncode, done.stdout) == (1, "")
    assert "asked fit the question\n" in done.stderr


def test_a_job_on_stdin_is_asked_about(told: dict[str, str], tmp_path: Path) -> None:
    """And submitted as it came, where it is: also one of Windows, of which sbatch says what it
    thinks.
    """
    job = "#!/bin/sh\r\n#HEADROOM the question\r\nsrun '%s' \\n\n\n"

    refused = run(told, tmp_path, "-N", "1", text=job)
    warned = run({**told, "HEADROOM_SUBMIT": "warn"}, tmp_path, "-N", "1", text=job)

    assert (refused.returncode, refused.stdout) == (1, "")
    assert (warned.returncode, warned.stdout) == (0, f"submitted -N 1\n{job}".replace("\r\n", "\n"))
    assert "asked fit the question\n" in refused.stderr


@pytest.mark.parametrize(
    "words", ["--wrap=hostname", "--wrap hostname", "--help", "-V", "-vh", "--version"]
)
def test_what_has_no_job_file_is_sbatch(told: dict[str, str], tmp_path: Path, words: str) -> None:
    """Its stdin is left alone, and nothing is asked."""
    done = run(told, tmp_path, *words.split(), text="for sbatch\n")

    assert (done.returncode, done.stdout, done.stderr) == (
        0,
        f"submitted {words}\nfor sbatch\n",
        "",
    )


def test_a_job_that_is_not_here_is_told(told: dict[str, str], tmp_path: Path) -> None:
    """Sbatch may find it elsewhere, but nobody asked about it."""
    done = run(told, tmp_path, "-N", "1", "elsewhere.sh")

    assert (done.returncode, done.stdout) == (0, "submitted -N 1 elsewhere.sh\n")
    assert "no file 'elsewhere.sh' here, so nothing was asked" in done.stderr
