from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define

from ..types import UNSET, Unset

T = TypeVar("T", bound="AllocationRequest")


@_attrs_define
class AllocationRequest:
    """What somebody holds on a node.

    Attributes:
        holder (str): Who holds it: a team, a job, a person.
        num_gpus (int): GPUs that he holds.
        gpu_indices (list[int] | Unset): Indices of these GPUs.
        host_memory_bytes (int | str | Unset): Bytes of the host's memory that he holds. Default: 0.
    """

    holder: str
    num_gpus: int
    gpu_indices: list[int] | Unset = UNSET
    host_memory_bytes: int | str | Unset = 0

    def to_dict(self) -> dict[str, Any]:
        holder = self.holder

        num_gpus = self.num_gpus

        gpu_indices: list[int] | Unset = UNSET
        if not isinstance(self.gpu_indices, Unset):
            gpu_indices = self.gpu_indices

        host_memory_bytes: int | str | Unset
        if isinstance(self.host_memory_bytes, Unset):
            host_memory_bytes = UNSET
        else:
            host_memory_bytes = self.host_memory_bytes

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "holder": holder,
                "num_gpus": num_gpus,
            }
        )
        if gpu_indices is not UNSET:
            field_dict["gpu_indices"] = gpu_indices
        if host_memory_bytes is not UNSET:
            field_dict["host_memory_bytes"] = host_memory_bytes

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        holder = d.pop("holder")

        num_gpus = d.pop("num_gpus")

        gpu_indices = cast(list[int], d.pop("gpu_indices", UNSET))

        def _parse_host_memory_bytes(data: object) -> int | str | Unset:
            if isinstance(data, Unset):
                return data
            return cast(int | str | Unset, data)

        host_memory_bytes = _parse_host_memory_bytes(d.pop("host_memory_bytes", UNSET))

        allocation_request = cls(
            holder=holder,
            num_gpus=num_gpus,
            gpu_indices=gpu_indices,
            host_memory_bytes=host_memory_bytes,
        )

        return allocation_request
