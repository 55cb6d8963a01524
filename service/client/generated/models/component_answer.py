from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..models.basis import Basis, check_basis

T = TypeVar("T", bound="ComponentAnswer")


@_attrs_define
class ComponentAnswer:
    """One part of the bytes at the peak instant of the worst rank; the parts sum exactly to `device_bytes`.

    Attributes:
        name (str): What the bytes are of.
        bytes_ (int): Bytes of it at the peak instant, on the worst rank.
        basis (Basis): Evidence behind a component.
        formula (str): The formula, with its numbers.
        source (str): Where the formula comes from.
    """

    name: str
    bytes_: int
    basis: Basis
    formula: str
    source: str
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        name = self.name

        bytes_ = self.bytes_

        basis: str = self.basis

        formula = self.formula

        source = self.source

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "name": name,
                "bytes": bytes_,
                "basis": basis,
                "formula": formula,
                "source": source,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        name = d.pop("name")

        bytes_ = d.pop("bytes")

        basis = check_basis(d.pop("basis"))

        formula = d.pop("formula")

        source = d.pop("source")

        component_answer = cls(
            name=name,
            bytes_=bytes_,
            basis=basis,
            formula=formula,
            source=source,
        )

        component_answer.additional_properties = d
        return component_answer

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
