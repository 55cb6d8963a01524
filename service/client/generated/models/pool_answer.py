from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

if TYPE_CHECKING:
    from ..models.node_answer import NodeAnswer


T = TypeVar("T", bound="PoolAnswer")


@_attrs_define
class PoolAnswer:
    """Nodes of one kind.

    Attributes:
        name (str): Name of the pool.
        gpu (str): Name of the GPU in the catalogue.
        gpus_per_node (int): GPUs of one node.
        nvlink_island_size (int | None): GPUs that reach each other over NVLink; null where it was not said, and then
            those of a node.
        host_memory_bytes (int | None): Bytes of the host's memory of one node; null where it was not said.
        nvme_bytes (int | None): Bytes of NVMe of one node; null where it was not said.
        network_bytes_per_second (int | None): Bytes per second of one node's network; null where it was not said.
        price_per_gpu_hour (float | None): USD of one GPU for one hour; null where it was not said.
        gpu_memory_bytes (int | None): Bytes that a process can allocate on a GPU that the catalogue does not have, 0
            where nobody knows; null for a GPU of the catalogue.
        gpu_replicas (int | None): Pods that share each GPU in time, without parts of its memory; null where each has
            one user.
        level_names (list[str]): Levels of the network that its nodes are in, outermost first.
        nodes (list[NodeAnswer] | None): Null where they are only counted, or were not asked for.
        num_nodes (int | None): Nodes without names; null where they have some.
        total_nodes (int): Nodes with and without names.
        total_gpus (int): GPUs of all nodes, drained ones too.
        drained_gpus (int): GPUs of nodes that take no new work.
        mig_gpus (int): GPUs in slices, on nodes that take work.
        reserved_gpus (int): GPUs that live reservations hold on nodes that take work.
        free_gpus (int): Whole GPUs that can be given out now.
    """

    name: str
    gpu: str
    gpus_per_node: int
    nvlink_island_size: int | None
    host_memory_bytes: int | None
    nvme_bytes: int | None
    network_bytes_per_second: int | None
    price_per_gpu_hour: float | None
    gpu_memory_bytes: int | None
    gpu_replicas: int | None
    level_names: list[str]
    nodes: list[NodeAnswer] | None
    num_nodes: int | None
    total_nodes: int
    total_gpus: int
    drained_gpus: int
    mig_gpus: int
    reserved_gpus: int
    free_gpus: int
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        name = self.name

        gpu = self.gpu

        gpus_per_node = self.gpus_per_node

        nvlink_island_size: int | None
        nvlink_island_size = self.nvlink_island_size

        host_memory_bytes: int | None
        host_memory_bytes = self.host_memory_bytes

        nvme_bytes: int | None
        nvme_bytes = self.nvme_bytes

        network_bytes_per_second: int | None
        network_bytes_per_second = self.network_bytes_per_second

        price_per_gpu_hour: float | None
        price_per_gpu_hour = self.price_per_gpu_hour

        gpu_memory_bytes: int | None
        gpu_memory_bytes = self.gpu_memory_bytes

        gpu_replicas: int | None
        gpu_replicas = self.gpu_replicas

        level_names = self.level_names

        nodes: list[dict[str, Any]] | None
        if isinstance(self.nodes, list):
            nodes = []
            for nodes_type_0_item_data in self.nodes:
                nodes_type_0_item = nodes_type_0_item_data.to_dict()
                nodes.append(nodes_type_0_item)

        else:
            nodes = self.nodes

        num_nodes: int | None
        num_nodes = self.num_nodes

        total_nodes = self.total_nodes

        total_gpus = self.total_gpus

        drained_gpus = self.drained_gpus

        mig_gpus = self.mig_gpus

        reserved_gpus = self.reserved_gpus

        free_gpus = self.free_gpus

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "name": name,
                "gpu": gpu,
                "gpus_per_node": gpus_per_node,
                "nvlink_island_size": nvlink_island_size,
                "host_memory_bytes": host_memory_bytes,
                "nvme_bytes": nvme_bytes,
                "network_bytes_per_second": network_bytes_per_second,
                "price_per_gpu_hour": price_per_gpu_hour,
                "gpu_memory_bytes": gpu_memory_bytes,
                "gpu_replicas": gpu_replicas,
                "level_names": level_names,
                "nodes": nodes,
                "num_nodes": num_nodes,
                "total_nodes": total_nodes,
                "total_gpus": total_gpus,
                "drained_gpus": drained_gpus,
                "mig_gpus": mig_gpus,
                "reserved_gpus": reserved_gpus,
                "free_gpus": free_gpus,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.node_answer import NodeAnswer  # noqa: PLC0415

        d = dict(src_dict)
        name = d.pop("name")

        gpu = d.pop("gpu")

        gpus_per_node = d.pop("gpus_per_node")

        def _parse_nvlink_island_size(data: object) -> int | None:
            if data is None:
                return data
            return cast(int | None, data)

        nvlink_island_size = _parse_nvlink_island_size(d.pop("nvlink_island_size"))

        def _parse_host_memory_bytes(data: object) -> int | None:
            if data is None:
                return data
            return cast(int | None, data)

        host_memory_bytes = _parse_host_memory_bytes(d.pop("host_memory_bytes"))

        def _parse_nvme_bytes(data: object) -> int | None:
            if data is None:
                return data
            return cast(int | None, data)

        nvme_bytes = _parse_nvme_bytes(d.pop("nvme_bytes"))

        def _parse_network_bytes_per_second(data: object) -> int | None:
            if data is None:
                return data
            return cast(int | None, data)

        network_bytes_per_second = _parse_network_bytes_per_second(d.pop("network_bytes_per_second"))

        def _parse_price_per_gpu_hour(data: object) -> float | None:
            if data is None:
                return data
            return cast(float | None, data)

        price_per_gpu_hour = _parse_price_per_gpu_hour(d.pop("price_per_gpu_hour"))

        def _parse_gpu_memory_bytes(data: object) -> int | None:
            if data is None:
                return data
            return cast(int | None, data)

        gpu_memory_bytes = _parse_gpu_memory_bytes(d.pop("gpu_memory_bytes"))

        def _parse_gpu_replicas(data: object) -> int | None:
            if data is None:
                return data
            return cast(int | None, data)

        gpu_replicas = _parse_gpu_replicas(d.pop("gpu_replicas"))

        level_names = cast(list[str], d.pop("level_names"))

        def _parse_nodes(data: object) -> list[NodeAnswer] | None:
            if data is None:
                return data
            try:
                if not isinstance(data, list):
                    raise TypeError()
                nodes_type_0 = []
                _nodes_type_0 = data
                for nodes_type_0_item_data in _nodes_type_0:
                    nodes_type_0_item = NodeAnswer.from_dict(nodes_type_0_item_data)

                    nodes_type_0.append(nodes_type_0_item)

                return nodes_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(list[NodeAnswer] | None, data)

        nodes = _parse_nodes(d.pop("nodes"))

        def _parse_num_nodes(data: object) -> int | None:
            if data is None:
                return data
            return cast(int | None, data)

        num_nodes = _parse_num_nodes(d.pop("num_nodes"))

        total_nodes = d.pop("total_nodes")

        total_gpus = d.pop("total_gpus")

        drained_gpus = d.pop("drained_gpus")

        mig_gpus = d.pop("mig_gpus")

        reserved_gpus = d.pop("reserved_gpus")

        free_gpus = d.pop("free_gpus")

        pool_answer = cls(
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
            total_nodes=total_nodes,
            total_gpus=total_gpus,
            drained_gpus=drained_gpus,
            mig_gpus=mig_gpus,
            reserved_gpus=reserved_gpus,
            free_gpus=free_gpus,
        )

        pool_answer.additional_properties = d
        return pool_answer

    @property
    def additional_keys(self) -> list[str]:
        return list(self.additional_properties.keys())

    def __getitem__(self, key: str) -> Any:
        return self.additional_properties[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self.additional_properties[key] = value

    def __delitem__(self, key: str) -> None:
        del self.additional_properties[key]

    def __contains__(self, key: str) -> bool:
        return key in self.additional_properties
