from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

T = TypeVar("T", bound="SeatAnswer")


@_attrs_define
class SeatAnswer:
    """GPUs of one replica on one node.

    Attributes:
        pool (str): Name of the pool.
        node (str): Host name of the node.
        num_gpus (int): GPUs of it, or slices where `mig_profile` is named.
        gpu_indices (list[int] | None): Null where any of the node's GPUs will do.
        mig_profile (None | str): MIG profile of the slices; null where they are whole GPUs.
        host_memory_bytes (int): Bytes of the host's memory for these GPUs together.
        replica (int): The replica, counted from 0.
    """

    pool: str
    node: str
    num_gpus: int
    gpu_indices: list[int] | None
    mig_profile: None | str
    host_memory_bytes: int
    replica: int
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        pool = self.pool

        node = self.node

        num_gpus = self.num_gpus

        gpu_indices: list[int] | None
        if isinstance(self.gpu_indices, list):
            gpu_indices = self.gpu_indices

        else:
            gpu_indices = self.gpu_indices

        mig_profile: None | str
        mig_profile = self.mig_profile

        host_memory_bytes = self.host_memory_bytes

        replica = self.replica

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "pool": pool,
                "node": node,
                "num_gpus": num_gpus,
                "gpu_indices": gpu_indices,
                "mig_profile": mig_profile,
                "host_memory_bytes": host_memory_bytes,
                "replica": replica,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        pool = d.pop("pool")

        node = d.pop("node")

        num_gpus = d.pop("num_gpus")

        def _parse_gpu_indices(data: object) -> list[int] | None:
            if data is None:
                return data
            try:
                if not isinstance(data, list):
                    raise TypeError()
                gpu_indices_type_0 = cast(list[int], data)

                return gpu_indices_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(list[int] | None, data)

        gpu_indices = _parse_gpu_indices(d.pop("gpu_indices"))

        def _parse_mig_profile(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        mig_profile = _parse_mig_profile(d.pop("mig_profile"))

        host_memory_bytes = d.pop("host_memory_bytes")

        replica = d.pop("replica")

        seat_answer = cls(
            pool=pool,
            node=node,
            num_gpus=num_gpus,
            gpu_indices=gpu_indices,
            mig_profile=mig_profile,
            host_memory_bytes=host_memory_bytes,
            replica=replica,
        )

        seat_answer.additional_properties = d
        return seat_answer

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
