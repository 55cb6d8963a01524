from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..models.cause_certainty import CauseCertainty, check_cause_certainty
from ..models.cause_name import CauseName, check_cause_name

T = TypeVar("T", bound="CauseAnswer")


@_attrs_define
class CauseAnswer:
    """One cause; the first explains the failure best.

    Attributes:
        name (CauseName): Cause of a failure.
        certainty (CauseCertainty): Certainty of a cause.
        why (str): The reason with its numbers.
    """

    name: CauseName
    certainty: CauseCertainty
    why: str
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        name: str = self.name

        certainty: str = self.certainty

        why = self.why

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "name": name,
                "certainty": certainty,
                "why": why,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        name = check_cause_name(d.pop("name"))

        certainty = check_cause_certainty(d.pop("certainty"))

        why = d.pop("why")

        cause_answer = cls(
            name=name,
            certainty=certainty,
            why=why,
        )

        cause_answer.additional_properties = d
        return cause_answer

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
