"""The GPUs of a launch's job, by whoever gives them."""

from dataclasses import replace

from service.formats.launches.allocations.pods import join_pods, read_pod
from service.formats.launches.allocations.slurm import read_slurm
from service.formats.launches.sources.commands import Command
from service.formats.launches.values.allocation import Allocation
from service.formats.launches.values.settings import Setting

_NODES = ("nnodes", "num_machines", "num_nodes")
"""Options of starters that say on how many nodes a launch runs."""


def find_allocation(command: Command | None) -> Allocation | None:
    """Return the GPUs of a command's job, None without any."""
    if command is None:
        return None
    if command.pod is not None:
        return join_pods(
            [
                read_pod(pod.container, pod.spec, where=command.where, is_single=pod.is_single)
                for pod in (command.pod, *command.other_pods)
            ]
        )
    steps = command.starters.get("srun")
    options = command.slurm or steps
    if steps is not None:
        steps.take("constraint")
    job = None if options is None else read_slurm(options)
    return job if command.gpus is None else _read_container(command, command.gpus, job)


def _read_container(command: Command, gpus: Setting, job: Allocation | None) -> Allocation:
    """Return a container's GPUs, of its job's or machine's.

    Where its launch spans several nodes, each has such a container.
    """
    number = gpus.as_int(minimum=1)
    if job is not None:
        has_fewer = job.per_node is None or number < job.per_node
        return replace(job, per_node=number, counts=(*job.counts, gpus)) if has_fewer else job
    is_spread = any(
        (nodes := starter.peek(name)) is not None and str(nodes.value) != "1"
        for starter in command.starters.values()
        for name in _NODES
    )
    return Allocation(per_node=number, num_nodes=None if is_spread else 1, counts=(gpus,))
