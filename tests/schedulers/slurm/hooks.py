"""Jobs that a real Slurm asks a running Headroom about, before it takes them."""

import shutil
import socket
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from tests.schedulers.headroom import list_decisions, serve
from tests.schedulers.slurm.cluster import SlurmCluster

SETTINGS = "CliFilterPlugins=cli_filter/lua\n"
_FILTER = Path("deploy/slurm/cli_filter.lua")
_CONFIG = "etc/slurm/headroom.conf"
_SCRIPT = "/tmp/job.sh"  # noqa: S108 - below the root of the chroot
_GPU = "nvidia_a100-sxm4-80gb"
_FITS = "llama-3.2-1b --task train --sequence-length 1024"
_TOO_LARGE = (
    "llama-2-7b --task train --sequence-length 4096 --zero-stage 3 --activation-checkpointing full"
)
_HOSTILE = "'; touch /tmp/touched; $(touch /tmp/touched) \\\" \x01 ä\n"


def install_filter(root: Path) -> None:
    """Put the filter where Slurm looks for it."""
    (root / "etc/slurm").mkdir(parents=True, exist_ok=True)
    shutil.copy(_FILTER, root / "etc/slurm/cli_filter.lua")
    (root / _CONFIG).unlink(missing_ok=True)


def check_hooks(cluster: SlurmCluster) -> Iterator[str]:
    """Yield what the filter does otherwise than it should."""
    with serve((_FITS, _TOO_LARGE)) as url:
        for fault in _check_answers(cluster, url):
            yield f"{fault} {list_decisions(url, 'slurm')}"
    # The port is free again: nobody answers.
    yield from _check_silence(cluster, url, "a service that is stopped")
    with closing(socket.create_server(("127.0.0.1", 0))) as deaf:
        address = f"http://127.0.0.1:{deaf.getsockname()[1]}"
        yield from _check_silence(cluster, address, "a service that is slow")


def _check_answers(cluster: SlurmCluster, url: str) -> Iterator[str]:
    _configure(cluster, url, mode="refuse")
    yield from _submit(cluster, "it fits", _FITS, passes=True)
    yield from _submit(cluster, "it is refused", _TOO_LARGE, "it needs 2 x", passes=False)
    nobody = "no-such-model --task train --sequence-length 1024"
    yield from _submit(cluster, "no model", nobody, "headroom cannot say", passes=True)
    yield from _submit(cluster, "no shell", f"{_FITS}\n# {_HOSTILE}", passes=True)
    if (cluster.root / "tmp/touched").exists():
        yield "a line of a script was run by a shell"
    _configure(cluster, url, mode="warn")
    yield from _submit(cluster, "it is warned of", _TOO_LARGE, "it needs 2 x", passes=True)
    _configure(cluster, url, mode="change")
    yield from _submit(cluster, "it is changed", _TOO_LARGE, "it gets 2 x", passes=True, gpus=2)
    _configure(cluster, f"{url}/nowhere", mode="refuse")
    yield from _submit(cluster, "another address", _TOO_LARGE, "no answer", passes=True)


def _check_silence(cluster: SlurmCluster, url: str, name: str) -> Iterator[str]:
    _configure(cluster, url, mode="refuse", timeout_s=2)
    yield from _submit(cluster, name, _TOO_LARGE, "no answer", passes=True)
    _configure(cluster, url, mode="refuse", fail="closed", timeout_s=2)
    yield from _submit(cluster, f"{name}, closed", _TOO_LARGE, "no answer", passes=False)


def _configure(
    cluster: SlurmCluster, url: str, *, mode: str, fail: str = "open", timeout_s: int = 30
) -> None:
    """Write the file of settings."""
    lines = [f"HEADROOM_URL={url}", f"HEADROOM_MODE={mode}", f"HEADROOM_FAIL={fail}"]
    (cluster.root / _CONFIG).write_text(
        "\n".join([*lines, f"HEADROOM_TIMEOUT_S={timeout_s}"]) + "\n"
    )


def _submit(
    cluster: SlurmCluster,
    name: str,
    question: str,
    line: str = "",
    *,
    passes: bool,
    gpus: int = 1,
) -> Iterator[str]:
    """Submit a job, and yield what is wrong with what became of it."""
    script = f"#!/bin/sh\n#HEADROOM {question}\nsleep 60\n"
    (cluster.root / "tmp/job.sh").write_text(script)
    done = cluster.run("sbatch", "--chdir=/tmp", f"--gres=gpu:{_GPU}:1", "--mem=1G", _SCRIPT)
    text = done.stderr.strip()
    sys.stdout.write(f"{name}: {text or done.stdout.strip()}\n")
    if passes != (done.returncode == 0):
        yield f"{name}: leaves with {done.returncode}"
    if line not in text or (text and not line):
        yield f"{name}: says {text!r}, not {line!r}"
    if done.returncode == 0:
        given = cluster.read_allocation(done.stdout.split()[-1])
        if given.gres != {f"gpu:{_GPU}:{gpus}"}:
            yield f"{name}: got {given.gres}"
