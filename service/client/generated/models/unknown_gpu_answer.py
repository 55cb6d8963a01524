from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

T = TypeVar("T", bound="UnknownGpuAnswer")


@_attrs_define
class UnknownGpuAnswer:
    """A GPU that the catalogue does not have, or has under several names.

    Attributes:
        name (str): Name of the GPU as the tool spells it.
        num_nodes (int): Nodes that have it.
        num_gpus (int): GPUs of these nodes.
        memory_bytes (int | None): Bytes that a process can allocate on it by what the tool says; null where it says
            nothing: then nothing is planned there.
        candidates (list[str]): GPUs of the catalogue that may be meant; `gpus` of the request says which.
    """

    name: str
    num_nodes: int
    num_gpus: int
    memory_bytes: int | None
    candidates: list[str]
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        name = self.name

        num_nodes = self.num_nodes

        num_gpus = self.num_gpus

        memory_bytes: int | None
        memory_bytes = self.memory_bytes

        candidates = self.candidates

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "name": name,
                "num_nodes": num_nodes,
                "num_gpus": num_gpus,
                "memory_bytes": memory_bytes,
                "candidates": candidates,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        name = d.pop("name")

        num_nodes = d.pop("num_nodes")

        num_gpus = d.pop("num_gpus")

        def _parse_memory_bytes(data: object) -> int | None:
            if data is None:
                return data
            return cast(int | None, data)

        memory_bytes = _parse_memory_bytes(d.pop("memory_bytes"))

        candidates = cast(list[str], d.pop("candidates"))

        unknown_gpu_answer = cls(
            name=name,
            num_nodes=num_nodes,
            num_gpus=num_gpus,
            memory_bytes=memory_bytes,
            candidates=candidates,
        )

        unknown_gpu_answer.additional_properties = d
        return unknown_gpu_answer

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
