from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define
from attrs import field as _attrs_field

T = TypeVar("T", bound="TensorAnswer")


@_attrs_define
class TensorAnswer:
    """A tensor of the question that has the requested size.

    Attributes:
        name (str): The tensor, in words.
        formula (str): Its size.
        bytes_ (int): Its bytes.
        term (str): Component that it is of, by its name in `per_gpu`.
    """

    name: str
    formula: str
    bytes_: int
    term: str
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        name = self.name

        formula = self.formula

        bytes_ = self.bytes_

        term = self.term

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "name": name,
                "formula": formula,
                "bytes": bytes_,
                "term": term,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        name = d.pop("name")

        formula = d.pop("formula")

        bytes_ = d.pop("bytes")

        term = d.pop("term")

        tensor_answer = cls(
            name=name,
            formula=formula,
            bytes_=bytes_,
            term=term,
        )

        tensor_answer.additional_properties = d
        return tensor_answer

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
