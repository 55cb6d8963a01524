"""A real Slurm in a chroot: one slurmctld, and a slurmd for each made-up node."""

import json
import os
import re
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

_PACKAGES = "slurmctld,slurmd,slurm-client,slurm-wlm-basic-plugins,curl"
_SETTINGS = """\
ClusterName=headroom
SlurmctldHost=localhost
AuthType=auth/slurm
CredType=cred/slurm
SlurmUser=root
SlurmctldPort=17800
StateSaveLocation=/var/lib/slurm/state
SlurmdSpoolDir=/var/lib/slurm/%n
SlurmctldPidFile=/var/lib/slurm/slurmctld.pid
SlurmdPidFile=/var/lib/slurm/%n.pid
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SlurmdParameters=config_overrides
GresTypes=gpu
SchedulerParameters=bf_interval=1,sched_interval=1,batch_sched_delay=0
MailProg=/bin/true
PartitionName=all Nodes=ALL Default=YES MaxTime=60
"""
_PATIENCE_S = 60.0
_POLL_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A made-up node: GPUs of one type, CPUs, and MiB of memory."""

    name: str
    gpu: str
    num_gpus: int
    cpus: int
    memory_mib: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmCluster:
    """A running cluster below ``root``."""

    root: Path

    def run(self, *command: str, text: str = "") -> "subprocess.CompletedProcess[str]":
        """Run a command of Slurm's, with a text on its stdin."""
        return subprocess.run(
            ["/usr/sbin/chroot", str(self.root), *command],
            input=text,
            capture_output=True,
            text=True,
            check=False,
        )

    def read_allocation(self, job: str) -> "Allocation":
        """Return what a job was given once it has run, and end it.

        Raises TimeoutError where it never does.
        """
        deadline = time.monotonic() + _PATIENCE_S
        while time.monotonic() < deadline:
            shown = self.run("scontrol", "--details", "show", "job", job).stdout
            tres, gres = re.search(r"AllocTRES=(\S+)", shown), re.findall(r"\bGRES=(\S+?)\(", shown)
            if tres is not None and tres[1] != "(null)" and gres:
                self.run("scancel", job)
                pairs = dict(pair.split("=", 1) for pair in tres[1].split(","))
                return Allocation(
                    cpus=int(pairs["cpu"]),
                    memory_mib=_parse_mib(pairs["mem"]),
                    nodes=int(pairs["node"]),
                    gres=frozenset(gres),
                )
            time.sleep(_POLL_S)
        message = f"job {job} was not started within {_PATIENCE_S:.0f} s"
        raise TimeoutError(message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """What Slurm gave a job: sums over its nodes, and the GPUs of each of them."""

    cpus: int
    memory_mib: int
    nodes: int
    gres: frozenset[str]


def _parse_mib(text: str) -> int:
    """Return Slurm's spelling of memory in MiB; it shortens what divides."""
    units = {"M": 1, "G": 1024, "T": 1024**2}
    return int(float(text[:-1]) * units[text[-1]])


def build_root(root: Path) -> None:
    """Make a chroot with Debian's Slurm, unless there is one."""
    # Debian makes it a link to what lies below the root.
    if os.path.lexists(root / "usr/sbin/slurmctld"):
        return
    command = ["debootstrap", "--variant=minbase", f"--include={_PACKAGES}", "sid", str(root)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


@contextmanager
def start_cluster(
    root: Path, nodes: tuple[Node, ...], settings: str = ""
) -> Iterator[SlurmCluster]:
    """Yield a cluster whose nodes are all idle; its processes end with it."""
    _configure(root, nodes, settings)
    cluster = SlurmCluster(root=root)
    with ExitStack() as stack:
        subprocess.run(["/bin/mount", "--bind", "/proc", str(root / "proc")], check=True)
        stack.callback(subprocess.run, ["/bin/umount", "-l", str(root / "proc")], check=False)
        stack.enter_context(_start(root, "slurmctld", "-D", "-c"))
        for node in nodes:
            stack.enter_context(_start(root, "slurmd", "-D", "-N", node.name))
        _await_idle(cluster, len(nodes))
        yield cluster


def _configure(root: Path, nodes: tuple[Node, ...], settings: str) -> None:
    etc, fake = root / "etc/slurm", root / "dev/fake"
    for folder in (etc, fake, root / "var/lib/slurm/state"):
        folder.mkdir(parents=True, exist_ok=True)
    (root / "etc/hosts").write_text(f"127.0.0.1 localhost {socket.gethostname()}\n")
    key = etc / "slurm.key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o600)
    (etc / "cgroup.conf").write_text("CgroupPlugin=disabled\n")
    lines, gpus = [_SETTINGS + settings], []
    for number, node in enumerate(nodes):
        lines.append(
            f"NodeName={node.name} NodeHostname=localhost Port={17810 + number} CPUs={node.cpus} "
            f"RealMemory={node.memory_mib} Gres=gpu:{node.gpu}:{node.num_gpus} State=UNKNOWN\n"
        )
        # Slurm looks whether a GPU's device file is there, and no more.
        for index in range(node.num_gpus):
            (fake / f"{node.name}-{index}").touch()
        files = f"/dev/fake/{node.name}-[0-{node.num_gpus - 1}]"
        gpus.append(f"NodeName={node.name} Name=gpu Type={node.gpu} File={files}\n")
    (etc / "slurm.conf").write_text("".join(lines))
    (etc / "gres.conf").write_text("".join(gpus))


@contextmanager
def _start(root: Path, *command: str) -> Iterator[None]:
    log = root / f"var/lib/slurm/{'-'.join(command).replace('--', '-')}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            ["/usr/sbin/chroot", str(root), *command], stdout=output, stderr=output
        )
        try:
            yield
        finally:
            process.terminate()
            process.wait()


def _await_idle(cluster: SlurmCluster, count: int) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        listing = cluster.run("scontrol", "show", "nodes", "--json").stdout
        nodes = json.loads(listing)["nodes"] if listing.startswith("{") else []
        if [node["state"] for node in nodes] == [["IDLE"]] * count:
            return
        time.sleep(_POLL_S)
    message = f"not all of {count} nodes were idle within {_PATIENCE_S:.0f} s"
    raise TimeoutError(message)
