"""The GPUs of a launch's job, by whoever gives them."""

from service.formats.launches.allocations.pods import join_pods, read_pod
from service.formats.launches.allocations.slurm import read_slurm
from service.formats.launches.sources.commands import Command
from service.formats.launches.values.allocation import Allocation


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
    return None if options is None else read_slurm(options)
