from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define

T = TypeVar("T", bound="GpuByMemory")


@_attrs_define
class GpuByMemory:
    """Any GPU, by what a process can allocate on it; there is no time estimate then.

    Attributes:
        memory_bytes (int | str): What a process can allocate: bytes as an integer, or with a binary unit.
    """

    memory_bytes: int | str

    def to_dict(self) -> dict[str, Any]:
        memory_bytes: int | str
        memory_bytes = self.memory_bytes

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "memory_bytes": memory_bytes,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)

        def _parse_memory_bytes(data: object) -> int | str:
            return cast(int | str, data)

        memory_bytes = _parse_memory_bytes(d.pop("memory_bytes"))

        gpu_by_memory = cls(
            memory_bytes=memory_bytes,
        )

        return gpu_by_memory
