"""Device meshes of a layout: state replicas, state shards, tensor parallel.

Tensor-parallel ranks are next to each other.
"""

from dataclasses import dataclass

from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from service.estimator.values.layout import Layout, Sharding

REPLICATE, SHARD, TENSOR = "replicate", "shard", "tensor"


@dataclass(frozen=True, slots=True, kw_only=True)
class RankMeshes:
    """The meshes along which states are sharded and layers split.

    In hybrid sharding replicas are in front of the shards.
    """

    states: DeviceMesh
    tensor: DeviceMesh


def make_meshes(layout: Layout, device: str) -> RankMeshes:
    """Arrange the ranks of ``fake_ranks`` in meshes.

    ``device`` is a type of devices, ``cpu`` or ``cuda``.
    """
    shards = layout.shards if layout.sharding is Sharding.FSDP2 else layout.data_parallel
    shape = (layout.data_parallel // shards, shards, layout.tensor_parallel)
    mesh = init_device_mesh(device, shape, mesh_dim_names=(REPLICATE, SHARD, TENSOR))
    states = mesh[REPLICATE, SHARD] if shape[0] > 1 else mesh[SHARD]
    return RankMeshes(states=states, tensor=mesh[TENSOR])
