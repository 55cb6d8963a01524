from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

T = TypeVar("T", bound="NextAnswer")


@_attrs_define
class NextAnswer:
    """The value after the ceiling: what it lacks, or why it cannot run at all.

    Attributes:
        value (int | None): The next value; null where there is none, as at a bound of the request.
        deficit_bytes (int | None): Device less usable bytes, 0 when it is only tight; null where it cannot run at all.
        missing_bytes (int | None): Bytes that it lacks for the confidence, at the interval's upper end; null where it
            cannot run at all.
        reason (str): What it lacks, or why it cannot run.
    """

    value: int | None
    deficit_bytes: int | None
    missing_bytes: int | None
    reason: str
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        value: int | None
        value = self.value

        deficit_bytes: int | None
        deficit_bytes = self.deficit_bytes

        missing_bytes: int | None
        missing_bytes = self.missing_bytes

        reason = self.reason

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "value": value,
                "deficit_bytes": deficit_bytes,
                "missing_bytes": missing_bytes,
                "reason": reason,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)

        def _parse_value(data: object) -> int | None:
            if data is None:
                return data
            return cast(int | None, data)

        value = _parse_value(d.pop("value"))

        def _parse_deficit_bytes(data: object) -> int | None:
            if data is None:
                return data
            return cast(int | None, data)

        deficit_bytes = _parse_deficit_bytes(d.pop("deficit_bytes"))

        def _parse_missing_bytes(data: object) -> int | None:
            if data is None:
                return data
            return cast(int | None, data)

        missing_bytes = _parse_missing_bytes(d.pop("missing_bytes"))

        reason = d.pop("reason")

        next_answer = cls(
            value=value,
            deficit_bytes=deficit_bytes,
            missing_bytes=missing_bytes,
            reason=reason,
        )

        next_answer.additional_properties = d
        return next_answer

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
