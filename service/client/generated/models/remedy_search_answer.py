from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define
from attrs import field as _attrs_field

T = TypeVar("T", bound="RemedySearchAnswer")


@_attrs_define
class RemedySearchAnswer:
    """How far remedies were looked for, and what came of it.

    Attributes:
        num_estimates (int): Configurations that were estimated, each on the model itself.
        max_estimates (int): The most that a search may estimate.
        num_changes (int): The most changes that were taken together.
        is_complete (bool): False where the limit of estimates ended the search before its end.
        conclusion (str): How many remedies fit, or that nothing known does, and why.
    """

    num_estimates: int
    max_estimates: int
    num_changes: int
    is_complete: bool
    conclusion: str
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        num_estimates = self.num_estimates

        max_estimates = self.max_estimates

        num_changes = self.num_changes

        is_complete = self.is_complete

        conclusion = self.conclusion

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "num_estimates": num_estimates,
                "max_estimates": max_estimates,
                "num_changes": num_changes,
                "is_complete": is_complete,
                "conclusion": conclusion,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        num_estimates = d.pop("num_estimates")

        max_estimates = d.pop("max_estimates")

        num_changes = d.pop("num_changes")

        is_complete = d.pop("is_complete")

        conclusion = d.pop("conclusion")

        remedy_search_answer = cls(
            num_estimates=num_estimates,
            max_estimates=max_estimates,
            num_changes=num_changes,
            is_complete=is_complete,
            conclusion=conclusion,
        )

        remedy_search_answer.additional_properties = d
        return remedy_search_answer

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
