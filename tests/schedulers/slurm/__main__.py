"""Submit every rendered job to a real Slurm: ``python -m tests.schedulers.slurm``.

Needs Linux, root and debootstrap. HEADROOM_SLURM_ROOT is where Debian's Slurm is kept (300 MB),
``/var/tmp/headroom-slurm`` unless it says otherwise. Leaves with 1 where Slurm gives a job other
GPUs, CPUs or memory than it was rendered for, or takes what no node has, and where the filter
``deploy/slurm/cli_filter.lua`` does not ask a running Headroom, or not do what it answers, or
``deploy/slurm/job_submit.lua`` warns of other jobs than it should.
"""

import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from service.cli.command_table import REFUSALS
from service.cli.commands.schedulers.slurm_flags import list_options
from service.estimator.values.layout import Layout
from service.estimator.values.units import GIB, MIB, ceil_div
from service.estimator.values.workload import Engine, ServeWorkload
from service.formats.renderings.host_needs import compute_host_needs
from service.formats.renderings.job import Job
from service.formats.renderings.render import render
from service.formats.renderings.schedulers import format_slurm_gres
from tests.schedulers.slurm import hooks, questions
from tests.schedulers.slurm.cluster import Allocation, Node, SlurmCluster, build_root, start_cluster
from tests.unit.formats.renderings.builders import FULLY_SHARDED, MEGATRON, ZERO_3, a_job

CHAT = ServeWorkload(num_sequences=8, prompt_tokens=512, engine=Engine.VLLM)
PART = replace(ZERO_3, data_parallel=4)
_A100 = Node(
    name="n1", gpu="nvidia_a100-sxm4-80gb", num_gpus=8, cpus=64, memory_mib=1024 * GIB // MIB
)
NODES = (
    _A100,
    replace(_A100, name="n2"),
    replace(_A100, name="n3", gpu="nvidia_h100_80gb_hbm3", cpus=96),
    replace(_A100, name="n4", gpu="nvidia_a100-sxm4-80gb_3g.40gb", num_gpus=4),
)
JOBS = {
    "part of a node": a_job(layout=PART),
    "one GPU": a_job(layout=Layout()),
    "a full node": a_job(layout=replace(ZERO_3, data_parallel=8)),
    "two nodes": a_job(layout=ZERO_3),
    "two nodes, accelerate": a_job(layout=FULLY_SHARDED),
    "Megatron": a_job(MEGATRON, Layout(tensor_parallel=2)),
    "offloaded": replace(a_job(layout=PART), host_bytes_per_node=300 * GIB),
    "offloaded, a full node": replace(
        a_job(layout=replace(ZERO_3, data_parallel=8)), host_bytes_per_node=600 * GIB
    ),
    "a server": a_job(CHAT, Layout(tensor_parallel=2), gpu="H100-SXM5-80GB"),
    "three servers": a_job(CHAT, Layout(tensor_parallel=2, data_parallel=3)),
    "a slice": a_job(CHAT, Layout(), mig_profile="3g.40gb"),
    "named nodes": a_job(nodes=("n1", "n2")),
}
REFUSED = {
    "nine GPUs of a node": ("--gres=gpu:nvidia_a100-sxm4-80gb:9",),
    "a GPU that no node has": ("--gres=gpu:nvidia_a100-sxm4-40gb:1",),
    "a slice by its profile alone": ("--gres=gpu:3g.40gb:1",),
    "more memory than a node has": (f"--mem={2 * _A100.memory_mib}M",),
    "more CPUs than a node has": ("--cpus-per-task=128",),
    "what slurm-flags says where nothing fits": (REFUSALS["slurm-flags"],),
}


def main() -> int:
    """Print a line a job; return 1 where one of them is wrong."""
    root = Path(os.environ.get("HEADROOM_SLURM_ROOT", "/var/tmp/headroom-slurm"))  # noqa: S108 - 300 MB outside the repository
    build_root(root)
    with start_cluster(root, NODES) as cluster:
        sys.stdout.write(cluster.run("sbatch", "--version").stdout)
        faults = [
            *(fault for name, job in JOBS.items() for fault in _check_job(cluster, name, job)),
            *(fault for name, words in REFUSED.items() for fault in _refuse(cluster, name, words)),
        ]
    hooks.install_filter(root)
    with start_cluster(root, NODES, hooks.SETTINGS) as cluster:
        faults += hooks.check_hooks(cluster)
    questions.install_plugin(root)
    with start_cluster(root, NODES, questions.SETTINGS) as cluster:
        faults += questions.check_questions(cluster)
    sys.stdout.write("".join(f"WRONG {fault}\n" for fault in faults))
    return 1 if faults else 0


def _check_job(cluster: SlurmCluster, name: str, job: Job) -> Iterator[str]:
    """Yield what Slurm does otherwise with a job than it was rendered for.

    It comes as the script, and as a script of somebody's with the options of its head.
    """
    script = str(render(job)["slurm"])
    # Slurm forgets the GPUs of a job that has ended, and its program is not installed.
    yield from _submit(cluster, name, job, script.replace("\n\n", "\n\nsleep 60\n", 1))
    options = list_options(script)
    yield from _submit(cluster, f"{name}, by flags", job, "#!/bin/sh\nsleep 60\n", *options)


def _submit(cluster: SlurmCluster, name: str, job: Job, script: str, *words: str) -> Iterator[str]:
    done = cluster.run("sbatch", "--chdir=/tmp", *words, text=script)
    if done.returncode:
        yield f"{name}: refused: {done.stderr.strip()}"
        return
    given, expected = cluster.read_allocation(done.stdout.split()[-1]), _expect(job)
    sys.stdout.write(
        f"{name}: {given.nodes} x {','.join(given.gres)}, {given.cpus} CPUs, "
        f"{given.memory_mib} MiB\n"
    )
    if given != expected:
        yield f"{name}: {given}, not {expected}"


def _expect(job: Job) -> Allocation:
    """Return what a job takes: its needs, or all of the nodes that it fills."""
    needs, gres = compute_host_needs(job), format_slurm_gres(job)
    node = next(node for node in NODES if f":{node.gpu}:" in gres)
    fills = job.gpus_per_node == job.layout.gpus_per_node and job.mig_profile is None
    memory = ceil_div(needs.memory_bytes, MIB)
    return Allocation(
        cpus=job.num_nodes * (node.cpus if fills else needs.cpus),
        memory_mib=job.num_nodes
        * (node.memory_mib if fills and not job.host_bytes_per_node else memory),
        nodes=job.num_nodes,
        gres=frozenset({gres}),
    )


def _refuse(cluster: SlurmCluster, name: str, words: tuple[str, ...]) -> Iterator[str]:
    """Yield a fault where Slurm takes a rendered job with these words changed."""
    script = str(render(JOBS["part of a node"])["slurm"])
    done = cluster.run("sbatch", "--chdir=/tmp", *words, text=script)
    sys.stdout.write(f"{name}: {done.stderr.strip() or 'taken'}\n")
    if not done.returncode:
        yield f"{name}: taken"


if __name__ == "__main__":
    sys.exit(main())
