from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define
from attrs import field as _attrs_field

T = TypeVar("T", bound="SpanAnswer")


@_attrs_define
class SpanAnswer:
    """Bytes as printed: the true number lies between the ends, by the digits.

    Attributes:
        bytes_ (int): Bytes in the middle.
        low_bytes (int): Fewest bytes that are printed so.
        high_bytes (int): Most bytes that are printed so.
    """

    bytes_: int
    low_bytes: int
    high_bytes: int
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        bytes_ = self.bytes_

        low_bytes = self.low_bytes

        high_bytes = self.high_bytes

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "bytes": bytes_,
                "low_bytes": low_bytes,
                "high_bytes": high_bytes,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        bytes_ = d.pop("bytes")

        low_bytes = d.pop("low_bytes")

        high_bytes = d.pop("high_bytes")

        span_answer = cls(
            bytes_=bytes_,
            low_bytes=low_bytes,
            high_bytes=high_bytes,
        )

        span_answer.additional_properties = d
        return span_answer

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
