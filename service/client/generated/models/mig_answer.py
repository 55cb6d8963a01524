from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

T = TypeVar("T", bound="MigAnswer")


@_attrs_define
class MigAnswer:
    """A slice that MIG can cut: how many fit on one GPU, and how many eighths of its memory each takes.

    Attributes:
        name (str): The profile, as `nvidia-smi mig -lgip` calls it.
        max_instances (int): Slices of it that fit on one GPU.
        memory_eighths (int): Eighths of the GPU's memory and of its bandwidth that one takes.
        usable_bytes (int): Bytes that a process in one can allocate.
        multiprocessors (int | None): Streaming multiprocessors of one, as `nvidia-smi mig -lgip` lists them; `null`
            where no list was read, and its share of the GPU's is taken from its name.
    """

    name: str
    max_instances: int
    memory_eighths: int
    usable_bytes: int
    multiprocessors: int | None
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        name = self.name

        max_instances = self.max_instances

        memory_eighths = self.memory_eighths

        usable_bytes = self.usable_bytes

        multiprocessors: int | None
        multiprocessors = self.multiprocessors

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "name": name,
                "max_instances": max_instances,
                "memory_eighths": memory_eighths,
                "usable_bytes": usable_bytes,
                "multiprocessors": multiprocessors,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        name = d.pop("name")

        max_instances = d.pop("max_instances")

        memory_eighths = d.pop("memory_eighths")

        usable_bytes = d.pop("usable_bytes")

        def _parse_multiprocessors(data: object) -> int | None:
            if data is None:
                return data
            return cast(int | None, data)

        multiprocessors = _parse_multiprocessors(d.pop("multiprocessors"))

        mig_answer = cls(
            name=name,
            max_instances=max_instances,
            memory_eighths=memory_eighths,
            usable_bytes=usable_bytes,
            multiprocessors=multiprocessors,
        )

        mig_answer.additional_properties = d
        return mig_answer

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
