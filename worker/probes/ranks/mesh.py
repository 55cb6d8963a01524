"""The GPUs of a layout as a grid: replicas of the states, shards of them, and next to each other tensor-parallel ranks."""

from dataclasses import dataclass

from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from service.estimator.values.layout import Layout, Sharding

REPLICATE, SHARD, TENSOR = "replicate", "shard", "tensor"


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """The parts of the grid along which states are sharded (with replicas in front, in hybrid sharding) and layers split."""

    states: DeviceMesh
    tensor: DeviceMesh


def make_grid(layout: Layout, device: str) -> Grid:
    """Lay the ranks of ``fake_ranks`` out for the devices of one type, ``cpu`` or ``cuda``."""
    shards = layout.shards if layout.sharding is Sharding.FSDP2 else layout.data_parallel
    shape = (layout.data_parallel // shards, shards, layout.tensor_parallel)
    mesh = init_device_mesh(device, shape, mesh_dim_names=(REPLICATE, SHARD, TENSOR))
    states = mesh[REPLICATE, SHARD] if shape[0] > 1 else mesh[SHARD]
    return Grid(states=states, tensor=mesh[TENSOR])
