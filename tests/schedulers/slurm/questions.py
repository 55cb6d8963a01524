"""Questions of jobs that a real slurmctld looks at as it takes them."""

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.schedulers.slurm.cluster import SlurmCluster

SETTINGS = "JobSubmitPlugins=lua\n"
_PLUGIN = Path("deploy/slurm/job_submit.lua")
_CONFIG = "etc/slurm/headroom.conf"
_GPU = "nvidia_a100-sxm4-80gb"
_TRAIN = "llama-2-7b --task train"
_SPLIT = "splits a model over 4 GPUs, and the job asks for 2"
_JOBS: dict[str, tuple[tuple[str, ...], str, str]] = {
    "no GPU": ((), f"{_TRAIN} --tensor-parallel 4", ""),
    "its degrees": ((f"--gres=gpu:{_GPU}:4",), f"{_TRAIN} --tensor-parallel 2", ""),
    "too few": ((f"--gres=gpu:{_GPU}:2",), f"{_TRAIN} --tensor-parallel=4", _SPLIT),
    "its replicas": (("--gpus=4",), f"{_TRAIN} --tensor-parallel 2 --data-parallel 2", ""),
    "other replicas": (
        ("--gpus-per-node=2", "--nodes=2"),
        f"{_TRAIN} --data-parallel 8",
        "the question is of 8 GPUs, and the job asks for 4",
    ),
    "GPUs of each task": (
        ("--gpus-per-task=1", "--ntasks=2"),
        f"{_TRAIN} --data-parallel 4",
        "the question is of 4 GPUs, and the job asks for 2",
    ),
    "signs of formats": (("--gpus=1",), "%s %d %n --data-parallel 9x", ""),
}
_UNASKED = "nobody asked whether this job fits"


def install_plugin(root: Path) -> None:
    """Put the plugin where Slurm looks for it."""
    (root / "etc/slurm").mkdir(parents=True, exist_ok=True)
    shutil.copy(_PLUGIN, root / "etc/slurm/job_submit.lua")
    (root / _CONFIG).unlink(missing_ok=True)


def check_questions(cluster: SlurmCluster) -> Iterator[str]:
    """Yield what slurmctld says otherwise than it should; it takes every job."""
    for name, (words, question, line) in _JOBS.items():
        yield from _submit(
            cluster, f"comment, {name}", line, f"--comment=headroom:{question}", *words
        )
        yield from _submit(
            cluster, f"script, {name}", line, *words, script=f"#HEADROOM {question}\n"
        )
    variable = f"--export=ALL,HEADROOM_QUESTION={_TRAIN} --tensor-parallel 4"
    yield from _submit(cluster, "a variable", _SPLIT, "--gpus=2", variable)
    yield from _submit(cluster, "no question", "", "--gpus=1")
    (cluster.root / _CONFIG).write_text("HEADROOM_WANT_QUESTION=yes\n")
    yield from _submit(cluster, "no question is warned of", _UNASKED, "--gpus=1")
    yield from _submit(cluster, "no GPU, no question", "")
    yield from _submit(
        cluster, "what headroom submits", "", "--gpus=1", "--comment=headroom-submission:s1"
    )


def _submit(
    cluster: SlurmCluster, name: str, line: str, *words: str, script: str = ""
) -> Iterator[str]:
    """Submit a job, and yield what is wrong with what its user reads."""
    text = f"#!/bin/sh\n{script}true\n"
    done = cluster.run("sbatch", "--chdir=/tmp", "--mem=1G", "--hold", *words, text=text)
    said = done.stderr.strip()
    sys.stdout.write(f"{name}: {said or done.stdout.strip()}\n")
    if done.returncode:
        yield f"{name}: refused: {said}"
    if line not in said or (said and not line):
        yield f"{name}: says {said!r}, not {line!r}"
