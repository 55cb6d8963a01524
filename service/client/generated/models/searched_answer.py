from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define
from attrs import field as _attrs_field

if TYPE_CHECKING:
    from ..models.searched_answer_pruned import SearchedAnswerPruned


T = TypeVar("T", bound="SearchedAnswer")


@_attrs_define
class SearchedAnswer:
    """How much was considered, how much of it was estimated, and what needed no estimate, by reason.

    Attributes:
        layouts (int): Configurations that were considered.
        estimated (int): Those of them whose bytes were estimated.
        pruned (SearchedAnswerPruned): Those that needed no estimate, by the reason why they cannot be the answer.
        elapsed_ms (float): Milliseconds that the search took.
    """

    layouts: int
    estimated: int
    pruned: SearchedAnswerPruned
    elapsed_ms: float
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        layouts = self.layouts

        estimated = self.estimated

        pruned = self.pruned.to_dict()

        elapsed_ms = self.elapsed_ms

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "layouts": layouts,
                "estimated": estimated,
                "pruned": pruned,
                "elapsed_ms": elapsed_ms,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.searched_answer_pruned import SearchedAnswerPruned  # noqa: PLC0415

        d = dict(src_dict)
        layouts = d.pop("layouts")

        estimated = d.pop("estimated")

        pruned = SearchedAnswerPruned.from_dict(d.pop("pruned"))

        elapsed_ms = d.pop("elapsed_ms")

        searched_answer = cls(
            layouts=layouts,
            estimated=estimated,
            pruned=pruned,
            elapsed_ms=elapsed_ms,
        )

        searched_answer.additional_properties = d
        return searched_answer

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
