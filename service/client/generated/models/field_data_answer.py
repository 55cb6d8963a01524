from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

T = TypeVar("T", bound="FieldDataAnswer")


@_attrs_define
class FieldDataAnswer:
    """What was decided.

    Attributes:
        ids (list[str]): Measurements that this changed.
        num_changed (int): How many they are.
        has_more (bool): Whether the source has more of them: ask the same again.
    """

    ids: list[str]
    num_changed: int
    has_more: bool
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        ids = self.ids

        num_changed = self.num_changed

        has_more = self.has_more

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "ids": ids,
                "num_changed": num_changed,
                "has_more": has_more,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        ids = cast(list[str], d.pop("ids"))

        num_changed = d.pop("num_changed")

        has_more = d.pop("has_more")

        field_data_answer = cls(
            ids=ids,
            num_changed=num_changed,
            has_more=has_more,
        )

        field_data_answer.additional_properties = d
        return field_data_answer

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
