from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.instant_answer_parts import InstantAnswerParts


T = TypeVar("T", bound="InstantAnswer")


@_attrs_define
class InstantAnswer:
    """The highest allocated bytes during one part of the step.

    Attributes:
        name (str): The part of the step.
        allocated_bytes (int): The most bytes of live tensors during it.
        parts (InstantAnswerParts | Unset): Bytes by component; their sum is `allocated_bytes`. Empty of phases.
    """

    name: str
    allocated_bytes: int
    parts: InstantAnswerParts | Unset = UNSET
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        name = self.name

        allocated_bytes = self.allocated_bytes

        parts: dict[str, Any] | Unset = UNSET
        if not isinstance(self.parts, Unset):
            parts = self.parts.to_dict()

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "name": name,
                "allocated_bytes": allocated_bytes,
            }
        )
        if parts is not UNSET:
            field_dict["parts"] = parts

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.instant_answer_parts import InstantAnswerParts  # noqa: PLC0415

        d = dict(src_dict)
        name = d.pop("name")

        allocated_bytes = d.pop("allocated_bytes")

        _parts = d.pop("parts", UNSET)
        parts: InstantAnswerParts | Unset
        if isinstance(_parts, Unset):
            parts = UNSET
        else:
            parts = InstantAnswerParts.from_dict(_parts)

        instant_answer = cls(
            name=name,
            allocated_bytes=allocated_bytes,
            parts=parts,
        )

        instant_answer.additional_properties = d
        return instant_answer

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
