"""Pools of slices as pools of GPUs that MIG has cut."""

from dataclasses import replace

from service.catalog.gpu_entries import EIGHTHS, GpuEntry
from service.estimator.values.errors import InvalidInputError
from service.estimator.values.units import ceil_div
from service.planner.cluster.inventory import MigSlices, Node, Pool


def cut_pool(pool: Pool, profile: str, entry: GpuEntry) -> Pool:
    """Return the GPUs whose slices a pool counts.

    Feature discovery labels a node whose GPUs are all cut alike with the slice's name, and
    Kubernetes counts its slices as ``nvidia.com/gpu``.
    """
    per_gpu = next(known.max_instances for known in entry.mig_profiles if known.name == profile)
    gpus = ceil_div(pool.gpus_per_node, per_gpu)
    return replace(
        pool,
        gpus_per_node=gpus,
        num_nodes=None,
        nodes=tuple(_cut_node(node, profile, pool, gpus) for node in pool.list_nodes()),
        nvlink_island_size=None,
    )


def _cut_node(node: Node, profile: str, pool: Pool, gpus: int) -> Node:
    if node.mig_gpus or node.mig_slices:
        message = (
            f"node {node.name!r} has MIG slices of its own, and the pool's gpu names slices already"
        )
        raise InvalidInputError(message, field="mig_slices")
    slices = MigSlices(profile=profile, total=pool.gpus_per_node, allocated=node.allocated_gpus)
    return Node(name=node.name, state=node.state, mig_gpus=gpus, mig_slices=(slices,))


def check_slices(node: Node, entry: GpuEntry) -> None:
    """Refuse MIG profiles and slices that the GPU cannot have.

    See the NVIDIA MIG user guide.
    """
    profiles = {profile.name: profile for profile in entry.mig_profiles}
    eighths = 0
    for slices in node.mig_slices:
        profile = profiles.get(slices.profile)
        if profile is None:
            profile_names = ", ".join(profiles) or "none"
            _refuse(f"{entry.name} has no MIG profile {slices.profile!r}; it has {profile_names}")
        elif slices.total > profile.max_instances * node.mig_gpus:
            limit = f"{profile.max_instances} slices {slices.profile!r}"
            _refuse(
                f"a {entry.name} has at most {limit}, and {node.mig_gpus} GPUs cannot have "
                f"{slices.total}"
            )
        else:
            eighths += slices.total * profile.memory_eighths
    if eighths > EIGHTHS * node.mig_gpus:
        _refuse(
            f"the slices take {eighths} eighths of the memory of {node.mig_gpus} GPUs, which have "
            f"{EIGHTHS} each"
        )


def _refuse(message: str) -> None:
    raise InvalidInputError(message, field="mig_slices")
