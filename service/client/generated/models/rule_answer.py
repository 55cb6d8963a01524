from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define
from attrs import field as _attrs_field

T = TypeVar("T", bound="RuleAnswer")


@_attrs_define
class RuleAnswer:
    """What a rule of thumb says, beside our answer; `off_by` is rule / ours - 1.

    Attributes:
        name (str): What the rule is called.
        bytes_ (int): Bytes that the rule says for one GPU.
        off_by (float): The rule's bytes over ours, less 1; negative where the rule says too little.
        why (str): Which of our figures it is held against, and what it leaves out.
    """

    name: str
    bytes_: int
    off_by: float
    why: str
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        name = self.name

        bytes_ = self.bytes_

        off_by = self.off_by

        why = self.why

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "name": name,
                "bytes": bytes_,
                "off_by": off_by,
                "why": why,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        name = d.pop("name")

        bytes_ = d.pop("bytes")

        off_by = d.pop("off_by")

        why = d.pop("why")

        rule_answer = cls(
            name=name,
            bytes_=bytes_,
            off_by=off_by,
            why=why,
        )

        rule_answer.additional_properties = d
        return rule_answer

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
