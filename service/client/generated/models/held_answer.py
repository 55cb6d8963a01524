from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

T = TypeVar("T", bound="HeldAnswer")


@_attrs_define
class HeldAnswer:
    """GPUs that are not free.

    Attributes:
        hold (str): `used`, `reserved` or `drained`.
        holder (None | str): Null where nobody told.
        num_gpus (int): GPUs that are held in this way.
        until (None | str): When the last reservation of this holder ends, RFC 3339, UTC; null where no reservation
            holds them.
    """

    hold: str
    holder: None | str
    num_gpus: int
    until: None | str
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        hold = self.hold

        holder: None | str
        holder = self.holder

        num_gpus = self.num_gpus

        until: None | str
        until = self.until

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "hold": hold,
                "holder": holder,
                "num_gpus": num_gpus,
                "until": until,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        hold = d.pop("hold")

        def _parse_holder(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        holder = _parse_holder(d.pop("holder"))

        num_gpus = d.pop("num_gpus")

        def _parse_until(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        until = _parse_until(d.pop("until"))

        held_answer = cls(
            hold=hold,
            holder=holder,
            num_gpus=num_gpus,
            until=until,
        )

        held_answer.additional_properties = d
        return held_answer

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
