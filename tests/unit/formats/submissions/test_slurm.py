"""Jobs of Slurm as submissions: what cli_filter of Slurm 26.05.5 was shown."""

import json
from pathlib import Path
from typing import Any

import pytest

from service.formats.submissions.slurm import SlurmJob, make_options, read_options
from service.formats.submissions.submission import GpuRequest, SubmissionError

SEEN = json.loads(Path(__file__).with_name("slurm_26_05.json").read_text())["seen"]
A100, SLICE = "nvidia_a100-sxm4-80gb", "nvidia_a100-sxm4-80gb_3g.40gb"
GPUS = [
    GpuRequest(per_node=4, names=(A100,)),
    GpuRequest(per_node=8, num_nodes=2, names=("a100",)),
    GpuRequest(per_node=8, num_nodes=2),
    GpuRequest(per_node=8, names=("nvidia_h100_80gb_hbm3",)),
    GpuRequest(per_node=4, num_nodes=2),
    GpuRequest(per_node=4, names=("a100", "h100")),
    GpuRequest(per_node=4, num_nodes=2),
    GpuRequest(per_node=16, names=(A100,)),
    GpuRequest(per_node=4),
    GpuRequest(per_node=1, names=(A100,), slice_profile="3g.40gb"),
    None,
    GpuRequest(per_node=1),
    GpuRequest(per_node=1),
    GpuRequest(per_node=1),
    GpuRequest(per_node=1),
    GpuRequest(per_node=4, num_nodes=2),
    GpuRequest(per_node=2),
    None,
]


def read(
    options: dict[str, Any],
    command: str = "sbatch",
    *,
    script: str | None = None,
    user: str | None = None,
    environment: dict[str, str] | None = None,
) -> SlurmJob:
    """Return a job by its options."""
    return read_options(command, options, script=script, user=user, environment=environment)


@pytest.mark.parametrize(
    ("row", "gpus"),
    list(zip(SEEN, GPUS, strict=True)),
    ids=[" ".join(row["command"]) for row in SEEN],
)
def test_the_gpus_of_a_job(row: dict[str, Any], gpus: GpuRequest | None) -> None:
    """Every option that asks for GPUs, as Slurm spells it."""
    job = read(row["options"], row["command"][0])

    assert job.submission.gpus == gpus
    assert job.submission.scheduler == "slurm"


def test_its_name_and_queue() -> None:
    """The partition is the queue."""
    job = read(SEEN[0]["options"], user="ann").submission

    assert (job.name, job.queue, job.user) == ("train", "all", "ann")
    assert job.command == ("bash", "job.sh", "--lr", "1")


def test_a_question_in_the_export() -> None:
    """It is a variable of the job."""
    assert read(SEEN[12]["options"]).submission.note == "llama-3-8b --task train"


def test_a_question_in_the_comment() -> None:
    """A comment that begins with the mark; others are the user's own."""
    assert read(SEEN[13]["options"]).submission.note == "llama-3-8b"
    assert read(SEEN[1]["options"]).submission.note is None


@pytest.mark.parametrize(
    ("export", "note"),
    [
        (None, "q"),
        ("ALL,A=b", "q"),
        ("HEADROOM_QUESTION", "q"),
        ("NONE", None),
        ("A=b", None),
        ("HEADROOM_QUESTION=mine", "mine"),
    ],
)
def test_what_the_job_gets_of_its_environment(export: str | None, note: str | None) -> None:
    """A variable that the job does not get says nothing about it."""
    options = {} if export is None else {"export": export}

    assert read(options, environment={"HEADROOM_QUESTION": "q"}).submission.note == note


def test_lines_of_the_script() -> None:
    """The last place that is looked at."""
    script = "#!/bin/bash\n#HEADROOM llama-3-8b\n#HEADROOM --task train\n"

    assert read({}, script=script).submission.note == "llama-3-8b --task train"
    assert read({"comment": "headroom: m"}, script=script).submission.note == "m"


def test_what_is_typed_wins_over_the_script() -> None:
    """Slurm has settled it: the reader of launches sees the options that hold."""
    script = "#!/bin/bash\n#SBATCH --nodes=1 --gpus-per-node=2\ntorchrun train.py\n"

    text = read(SEEN[2]["options"], script=script).submission.script

    assert text is not None
    lines = text.splitlines()
    assert lines == ["#!/bin/bash", "#SBATCH --nodes=2 --gpus-per-node=8", "torchrun train.py"]


def test_a_wrapped_command() -> None:
    """--wrap is a script of one line."""
    text = read(SEEN[14]["options"]).submission.script

    assert text == ("#!/bin/sh\n#SBATCH --gres=gres/gpu:1\ntorchrun --nproc-per-node=1 train.py\n")


def test_the_command_of_srun() -> None:
    """With the number of its nodes."""
    command = read(SEEN[15]["options"], "srun").submission.command

    assert command[:4] == ("srun", "--nodes=2", "torchrun", "--nproc-per-node=4")


@pytest.mark.parametrize(
    ("row", "options"),
    [
        (0, {"gres": f"gpu:{A100}:6"}),
        (3, {"gpus": "nvidia_h100_80gb_hbm3:6"}),
        (13, {"gres": "gpu:6,license:2"}),
    ],
)
def test_another_number_of_gpus(row: int, options: dict[str, str]) -> None:
    """By the option that says it; other resources stay."""
    job = read(SEEN[row]["options"])

    assert job.submission.can_change
    assert make_options(job, 6) == options


@pytest.mark.parametrize("row", [1, 4, 5, 6, 8, 17])
def test_what_cannot_be_changed(row: int) -> None:
    """Several nodes, types or options: no one number."""
    assert not read(SEEN[row]["options"]).submission.can_change


def test_nothing_to_change() -> None:
    """A job without GPUs has no option for them."""
    with pytest.raises(SubmissionError, match="no one option"):
        make_options(read({}), 2)


def test_numbers_that_no_job_has() -> None:
    """They are refused with the number."""
    with pytest.raises(SubmissionError, match="999,999,999 GPUs"):
        read({"gres": "gres/gpu:999999999"})
