from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define
from attrs import field as _attrs_field

if TYPE_CHECKING:
    from ..models.hook_question_answer_question import HookQuestionAnswerQuestion


T = TypeVar("T", bound="HookQuestionAnswer")


@_attrs_define
class HookQuestionAnswer:
    """A question that a hook answered.

    Attributes:
        digest (str): Its digest.
        question (HookQuestionAnswerQuestion): A body of POST /v1/fit, which asks it again.
    """

    digest: str
    question: HookQuestionAnswerQuestion
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        digest = self.digest

        question = self.question.to_dict()

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "digest": digest,
                "question": question,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.hook_question_answer_question import HookQuestionAnswerQuestion  # noqa: PLC0415

        d = dict(src_dict)
        digest = d.pop("digest")

        question = HookQuestionAnswerQuestion.from_dict(d.pop("question"))

        hook_question_answer = cls(
            digest=digest,
            question=question,
        )

        hook_question_answer.additional_properties = d
        return hook_question_answer

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
