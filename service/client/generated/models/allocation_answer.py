from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

T = TypeVar("T", bound="AllocationAnswer")


@_attrs_define
class AllocationAnswer:
    """What somebody holds on a node.

    Attributes:
        holder (str): Who holds it: a team, a job, a person.
        num_gpus (int): GPUs that he holds.
        gpu_indices (list[int] | None): Indices of these GPUs on the node; null where they are not known.
        host_memory_bytes (int): Bytes of the host's memory that he holds.
    """

    holder: str
    num_gpus: int
    gpu_indices: list[int] | None
    host_memory_bytes: int
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        holder = self.holder

        num_gpus = self.num_gpus

        gpu_indices: list[int] | None
        if isinstance(self.gpu_indices, list):
            gpu_indices = self.gpu_indices

        else:
            gpu_indices = self.gpu_indices

        host_memory_bytes = self.host_memory_bytes

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "holder": holder,
                "num_gpus": num_gpus,
                "gpu_indices": gpu_indices,
                "host_memory_bytes": host_memory_bytes,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        holder = d.pop("holder")

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

        host_memory_bytes = d.pop("host_memory_bytes")

        allocation_answer = cls(
            holder=holder,
            num_gpus=num_gpus,
            gpu_indices=gpu_indices,
            host_memory_bytes=host_memory_bytes,
        )

        allocation_answer.additional_properties = d
        return allocation_answer

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
