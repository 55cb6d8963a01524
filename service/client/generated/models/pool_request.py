from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define

from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.node_request import NodeRequest


T = TypeVar("T", bound="PoolRequest")


@_attrs_define
class PoolRequest:
    """Nodes of one kind: either `nodes` by name or `num_nodes`.

    Attributes:
        name (str): Lower-case letters, digits, '.', '_' and '-'; at most 63 characters.
        gpu (str): Name or alias of a GPU of the catalogue, or of a MIG slice of one: then all GPUs of the nodes are cut
            into it, and `gpus_per_node` and `allocated_gpus` count slices.
        gpus_per_node (int): GPUs of one node.
        nvlink_island_size (int | Unset): GPUs that reach each other over NVLink.
        host_memory_bytes (int | str | Unset): Bytes of one node's memory.
        nvme_bytes (int | str | Unset): Bytes of one node's NVMe.
        network_bytes_per_second (int | Unset): Bytes per second of one node's network.
        price_per_gpu_hour (float | Unset): USD of one GPU for one hour.
        gpu_memory_bytes (int | str | Unset): Of a GPU that the catalogue does not have: bytes that a process can
            allocate on it, 0 where nobody knows. Then `gpu` is any name.
        gpu_replicas (int | Unset): Pods that share each GPU in time, without parts of its memory.
        level_names (list[str] | Unset): Levels of the network that its nodes are in, outermost first.
        nodes (list[NodeRequest] | Unset): Its nodes by name, in place of `num_nodes`.
        num_nodes (int | Unset): Nodes without names.
    """

    name: str
    gpu: str
    gpus_per_node: int
    nvlink_island_size: int | Unset = UNSET
    host_memory_bytes: int | str | Unset = UNSET
    nvme_bytes: int | str | Unset = UNSET
    network_bytes_per_second: int | Unset = UNSET
    price_per_gpu_hour: float | Unset = UNSET
    gpu_memory_bytes: int | str | Unset = UNSET
    gpu_replicas: int | Unset = UNSET
    level_names: list[str] | Unset = UNSET
    nodes: list[NodeRequest] | Unset = UNSET
    num_nodes: int | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        name = self.name

        gpu = self.gpu

        gpus_per_node = self.gpus_per_node

        nvlink_island_size = self.nvlink_island_size

        host_memory_bytes: int | str | Unset
        if isinstance(self.host_memory_bytes, Unset):
            host_memory_bytes = UNSET
        else:
            host_memory_bytes = self.host_memory_bytes

        nvme_bytes: int | str | Unset
        if isinstance(self.nvme_bytes, Unset):
            nvme_bytes = UNSET
        else:
            nvme_bytes = self.nvme_bytes

        network_bytes_per_second = self.network_bytes_per_second

        price_per_gpu_hour = self.price_per_gpu_hour

        gpu_memory_bytes: int | str | Unset
        if isinstance(self.gpu_memory_bytes, Unset):
            gpu_memory_bytes = UNSET
        else:
            gpu_memory_bytes = self.gpu_memory_bytes

        gpu_replicas = self.gpu_replicas

        level_names: list[str] | Unset = UNSET
        if not isinstance(self.level_names, Unset):
            level_names = self.level_names

        nodes: list[dict[str, Any]] | Unset = UNSET
        if not isinstance(self.nodes, Unset):
            nodes = []
            for nodes_item_data in self.nodes:
                nodes_item = nodes_item_data.to_dict()
                nodes.append(nodes_item)

        num_nodes = self.num_nodes

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "name": name,
                "gpu": gpu,
                "gpus_per_node": gpus_per_node,
            }
        )
        if nvlink_island_size is not UNSET:
            field_dict["nvlink_island_size"] = nvlink_island_size
        if host_memory_bytes is not UNSET:
            field_dict["host_memory_bytes"] = host_memory_bytes
        if nvme_bytes is not UNSET:
            field_dict["nvme_bytes"] = nvme_bytes
        if network_bytes_per_second is not UNSET:
            field_dict["network_bytes_per_second"] = network_bytes_per_second
        if price_per_gpu_hour is not UNSET:
            field_dict["price_per_gpu_hour"] = price_per_gpu_hour
        if gpu_memory_bytes is not UNSET:
            field_dict["gpu_memory_bytes"] = gpu_memory_bytes
        if gpu_replicas is not UNSET:
            field_dict["gpu_replicas"] = gpu_replicas
        if level_names is not UNSET:
            field_dict["level_names"] = level_names
        if nodes is not UNSET:
            field_dict["nodes"] = nodes
        if num_nodes is not UNSET:
            field_dict["num_nodes"] = num_nodes

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.node_request import NodeRequest  # noqa: PLC0415

        d = dict(src_dict)
        name = d.pop("name")

        gpu = d.pop("gpu")

        gpus_per_node = d.pop("gpus_per_node")

        nvlink_island_size = d.pop("nvlink_island_size", UNSET)

        def _parse_host_memory_bytes(data: object) -> int | str | Unset:
            if isinstance(data, Unset):
                return data
            return cast(int | str | Unset, data)

        host_memory_bytes = _parse_host_memory_bytes(d.pop("host_memory_bytes", UNSET))

        def _parse_nvme_bytes(data: object) -> int | str | Unset:
            if isinstance(data, Unset):
                return data
            return cast(int | str | Unset, data)

        nvme_bytes = _parse_nvme_bytes(d.pop("nvme_bytes", UNSET))

        network_bytes_per_second = d.pop("network_bytes_per_second", UNSET)

        price_per_gpu_hour = d.pop("price_per_gpu_hour", UNSET)

        def _parse_gpu_memory_bytes(data: object) -> int | str | Unset:
            if isinstance(data, Unset):
                return data
            return cast(int | str | Unset, data)

        gpu_memory_bytes = _parse_gpu_memory_bytes(d.pop("gpu_memory_bytes", UNSET))

        gpu_replicas = d.pop("gpu_replicas", UNSET)

        level_names = cast(list[str], d.pop("level_names", UNSET))

        _nodes = d.pop("nodes", UNSET)
        nodes: list[NodeRequest] | Unset = UNSET
        if _nodes is not UNSET:
            nodes = []
            for nodes_item_data in _nodes:
                nodes_item = NodeRequest.from_dict(nodes_item_data)

                nodes.append(nodes_item)

        num_nodes = d.pop("num_nodes", UNSET)

        pool_request = cls(
            name=name,
            gpu=gpu,
            gpus_per_node=gpus_per_node,
            nvlink_island_size=nvlink_island_size,
            host_memory_bytes=host_memory_bytes,
            nvme_bytes=nvme_bytes,
            network_bytes_per_second=network_bytes_per_second,
            price_per_gpu_hour=price_per_gpu_hour,
            gpu_memory_bytes=gpu_memory_bytes,
            gpu_replicas=gpu_replicas,
            level_names=level_names,
            nodes=nodes,
            num_nodes=num_nodes,
        )

        return pool_request
