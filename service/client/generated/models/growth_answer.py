from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define
from attrs import field as _attrs_field

if TYPE_CHECKING:
    from ..models.span_answer import SpanAnswer


T = TypeVar("T", bound="GrowthAnswer")


@_attrs_define
class GrowthAnswer:
    """Memory that grows from step to step.

    Attributes:
        num_readings (int): Steps whose memory the log prints.
        first (SpanAnswer): Bytes as printed: the true number lies between the ends, by the digits.
        last (SpanAnswer): Bytes as printed: the true number lies between the ends, by the digits.
        first_line (int): Line of the first.
        last_line (int): Line of the last.
        bytes_per_step (int): Mean growth in bytes between two of them.
    """

    num_readings: int
    first: SpanAnswer
    last: SpanAnswer
    first_line: int
    last_line: int
    bytes_per_step: int
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        num_readings = self.num_readings

        first = self.first.to_dict()

        last = self.last.to_dict()

        first_line = self.first_line

        last_line = self.last_line

        bytes_per_step = self.bytes_per_step

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "num_readings": num_readings,
                "first": first,
                "last": last,
                "first_line": first_line,
                "last_line": last_line,
                "bytes_per_step": bytes_per_step,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.span_answer import SpanAnswer  # noqa: PLC0415

        d = dict(src_dict)
        num_readings = d.pop("num_readings")

        first = SpanAnswer.from_dict(d.pop("first"))

        last = SpanAnswer.from_dict(d.pop("last"))

        first_line = d.pop("first_line")

        last_line = d.pop("last_line")

        bytes_per_step = d.pop("bytes_per_step")

        growth_answer = cls(
            num_readings=num_readings,
            first=first,
            last=last,
            first_line=first_line,
            last_line=last_line,
            bytes_per_step=bytes_per_step,
        )

        growth_answer.additional_properties = d
        return growth_answer

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
