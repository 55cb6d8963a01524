from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..models.failure_quantity import FailureQuantity, check_failure_quantity

T = TypeVar("T", bound="ReadNumberAnswer")


@_attrs_define
class ReadNumberAnswer:
    """One number of the log.

    Attributes:
        quantity (FailureQuantity): Number of a failure, by its name in the answer.
        value (float): The number: bytes, tokens, sequences or a share.
        low (float): The least that is printed so.
        high (float): The most that is printed so.
        text (str): As it was printed.
        line (int | None): Line that it stands in; null of a snapshot.
    """

    quantity: FailureQuantity
    value: float
    low: float
    high: float
    text: str
    line: int | None
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        quantity: str = self.quantity

        value = self.value

        low = self.low

        high = self.high

        text = self.text

        line: int | None
        line = self.line

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "quantity": quantity,
                "value": value,
                "low": low,
                "high": high,
                "text": text,
                "line": line,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        quantity = check_failure_quantity(d.pop("quantity"))

        value = d.pop("value")

        low = d.pop("low")

        high = d.pop("high")

        text = d.pop("text")

        def _parse_line(data: object) -> int | None:
            if data is None:
                return data
            return cast(int | None, data)

        line = _parse_line(d.pop("line"))

        read_number_answer = cls(
            quantity=quantity,
            value=value,
            low=low,
            high=high,
            text=text,
            line=line,
        )

        read_number_answer.additional_properties = d
        return read_number_answer

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
