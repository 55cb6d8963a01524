from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..models.agreement import Agreement, check_agreement

T = TypeVar("T", bound="ComparisonAnswer")


@_attrs_define
class ComparisonAnswer:
    """One quantity of the question beside what was read.

    Attributes:
        quantity (str): `allocated_bytes`, `reserved_bytes`, `device_bytes` or a part of an engine.
        predicted (int): As predicted: bytes, or tokens of a pool.
        low (int): Lower end of the predicted interval.
        high (int): Upper end of the predicted interval.
        value (int): As read: bytes, or tokens of a pool.
        is_lower_bound (bool): The run needed at least `value`, which is what it had and what it asked for on top: it
            failed before its peak.
        agreement (Agreement): Side of the predicted interval on which a read number lies.
    """

    quantity: str
    predicted: int
    low: int
    high: int
    value: int
    is_lower_bound: bool
    agreement: Agreement
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        quantity = self.quantity

        predicted = self.predicted

        low = self.low

        high = self.high

        value = self.value

        is_lower_bound = self.is_lower_bound

        agreement: str = self.agreement

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "quantity": quantity,
                "predicted": predicted,
                "low": low,
                "high": high,
                "value": value,
                "is_lower_bound": is_lower_bound,
                "agreement": agreement,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        quantity = d.pop("quantity")

        predicted = d.pop("predicted")

        low = d.pop("low")

        high = d.pop("high")

        value = d.pop("value")

        is_lower_bound = d.pop("is_lower_bound")

        agreement = check_agreement(d.pop("agreement"))

        comparison_answer = cls(
            quantity=quantity,
            predicted=predicted,
            low=low,
            high=high,
            value=value,
            is_lower_bound=is_lower_bound,
            agreement=agreement,
        )

        comparison_answer.additional_properties = d
        return comparison_answer

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
