from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

T = TypeVar("T", bound="RuleAnswer")


@_attrs_define
class RuleAnswer:
    """What a rule of thumb or a well-known article says, beside our answer; `off_by` is rule / ours - 1.

    Attributes:
        name (str): What the rule is called.
        bytes_ (int | None): Bytes that the rule says, for one GPU unless `why` says of what else; null where it is
            about time.
        our_bytes (int | None): Our bytes of the same thing; null where the rule is about time.
        seconds (float | None): Seconds of a step that the rule says; null where it is about bytes.
        our_seconds (float | None): Our seconds of a step; null where the rule is about bytes.
        off_by (float): The rule's figure over ours, less 1; negative where the rule says too little.
        why (str): Which of our figures it is held against, and what it leaves out.
        source (str): The article, documentation or code that says it.
    """

    name: str
    bytes_: int | None
    our_bytes: int | None
    seconds: float | None
    our_seconds: float | None
    off_by: float
    why: str
    source: str
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        name = self.name

        bytes_: int | None
        bytes_ = self.bytes_

        our_bytes: int | None
        our_bytes = self.our_bytes

        seconds: float | None
        seconds = self.seconds

        our_seconds: float | None
        our_seconds = self.our_seconds

        off_by = self.off_by

        why = self.why

        source = self.source

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "name": name,
                "bytes": bytes_,
                "our_bytes": our_bytes,
                "seconds": seconds,
                "our_seconds": our_seconds,
                "off_by": off_by,
                "why": why,
                "source": source,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        name = d.pop("name")

        def _parse_bytes_(data: object) -> int | None:
            if data is None:
                return data
            return cast(int | None, data)

        bytes_ = _parse_bytes_(d.pop("bytes"))

        def _parse_our_bytes(data: object) -> int | None:
            if data is None:
                return data
            return cast(int | None, data)

        our_bytes = _parse_our_bytes(d.pop("our_bytes"))

        def _parse_seconds(data: object) -> float | None:
            if data is None:
                return data
            return cast(float | None, data)

        seconds = _parse_seconds(d.pop("seconds"))

        def _parse_our_seconds(data: object) -> float | None:
            if data is None:
                return data
            return cast(float | None, data)

        our_seconds = _parse_our_seconds(d.pop("our_seconds"))

        off_by = d.pop("off_by")

        why = d.pop("why")

        source = d.pop("source")

        rule_answer = cls(
            name=name,
            bytes_=bytes_,
            our_bytes=our_bytes,
            seconds=seconds,
            our_seconds=our_seconds,
            off_by=off_by,
            why=why,
            source=source,
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
