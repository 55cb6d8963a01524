from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define
from attrs import field as _attrs_field

T = TypeVar("T", bound="ReadKeyAnswer")


@_attrs_define
class ReadKeyAnswer:
    """A setting that decides memory or time.

    Attributes:
        key (str): Its name, as it was written.
        value (Any): Its value, as it was written.
        as_ (str): The field of the question that it became, or what it means.
        where (str): File and line, `command`, `arguments`, or `default:` and whose.
    """

    key: str
    value: Any
    as_: str
    where: str
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        key = self.key

        value = self.value

        as_ = self.as_

        where = self.where

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "key": key,
                "value": value,
                "as": as_,
                "where": where,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        key = d.pop("key")

        value = d.pop("value")

        as_ = d.pop("as")

        where = d.pop("where")

        read_key_answer = cls(
            key=key,
            value=value,
            as_=as_,
            where=where,
        )

        read_key_answer.additional_properties = d
        return read_key_answer

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
