from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

T = TypeVar("T", bound="GgufTensorAnswer")


@_attrs_define
class GgufTensorAnswer:
    """One tensor of a GGUF file.

    Attributes:
        name (str): Its name in the file.
        type_ (str): Its format, by ggml's name.
        shape (list[int]): Sizes, the length of its rows first.
        bytes_ (int): Its bytes.
    """

    name: str
    type_: str
    shape: list[int]
    bytes_: int
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        name = self.name

        type_ = self.type_

        shape = self.shape

        bytes_ = self.bytes_

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "name": name,
                "type": type_,
                "shape": shape,
                "bytes": bytes_,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        name = d.pop("name")

        type_ = d.pop("type")

        shape = cast(list[int], d.pop("shape"))

        bytes_ = d.pop("bytes")

        gguf_tensor_answer = cls(
            name=name,
            type_=type_,
            shape=shape,
            bytes_=bytes_,
        )

        gguf_tensor_answer.additional_properties = d
        return gguf_tensor_answer

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
