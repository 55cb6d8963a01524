from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define
from attrs import field as _attrs_field

if TYPE_CHECKING:
    from ..models.prioritize_answer_node_score import PrioritizeAnswerNodeScore


T = TypeVar("T", bound="PrioritizeAnswer")


@_attrs_define
class PrioritizeAnswer:
    """How well nodes suit a task.

    Attributes:
        node_score (PrioritizeAnswerNodeScore): By node, 0 to 10: 10 where the cheapest GPU is that holds it.
        error_message (str): Empty: what is unknown scores nothing.
    """

    node_score: PrioritizeAnswerNodeScore
    error_message: str
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        node_score = self.node_score.to_dict()

        error_message = self.error_message

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "nodeScore": node_score,
                "errorMessage": error_message,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.prioritize_answer_node_score import PrioritizeAnswerNodeScore  # noqa: PLC0415

        d = dict(src_dict)
        node_score = PrioritizeAnswerNodeScore.from_dict(d.pop("nodeScore"))

        error_message = d.pop("errorMessage")

        prioritize_answer = cls(
            node_score=node_score,
            error_message=error_message,
        )

        prioritize_answer.additional_properties = d
        return prioritize_answer

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
