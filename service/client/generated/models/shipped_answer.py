from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define
from attrs import field as _attrs_field

T = TypeVar("T", bound="ShippedAnswer")


@_attrs_define
class ShippedAnswer:
    """The interval that an analytic answer gets before anything was measured here.

    Attributes:
        kind (str): The kind of run.
        quantity (str): Whose interval it is.
        low (float): Lowest reading over the answer.
        high (float): Highest reading over the answer.
    """

    kind: str
    quantity: str
    low: float
    high: float
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        kind = self.kind

        quantity = self.quantity

        low = self.low

        high = self.high

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "kind": kind,
                "quantity": quantity,
                "low": low,
                "high": high,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        kind = d.pop("kind")

        quantity = d.pop("quantity")

        low = d.pop("low")

        high = d.pop("high")

        shipped_answer = cls(
            kind=kind,
            quantity=quantity,
            low=low,
            high=high,
        )

        shipped_answer.additional_properties = d
        return shipped_answer

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
