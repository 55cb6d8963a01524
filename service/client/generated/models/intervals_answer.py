from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

T = TypeVar("T", bound="IntervalsAnswer")


@_attrs_define
class IntervalsAnswer:
    """Bounds of the three quantities in bytes: low and high, at `level`.

    Attributes:
        level (float): Share of cases that an interval should hold.
        allocated (list[int]): Lower and upper end of `allocated_bytes`.
        reserved (list[int]): Lower and upper end of `reserved_bytes`.
        device (list[int]): Lower and upper end of `device_bytes`, whose upper end decides between `fits` and `tight`.
    """

    level: float
    allocated: list[int]
    reserved: list[int]
    device: list[int]
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        level = self.level

        allocated = self.allocated

        reserved = self.reserved

        device = self.device

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "level": level,
                "allocated": allocated,
                "reserved": reserved,
                "device": device,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        level = d.pop("level")

        allocated = cast(list[int], d.pop("allocated"))

        reserved = cast(list[int], d.pop("reserved"))

        device = cast(list[int], d.pop("device"))

        intervals_answer = cls(
            level=level,
            allocated=allocated,
            reserved=reserved,
            device=device,
        )

        intervals_answer.additional_properties = d
        return intervals_answer

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
