from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

T = TypeVar("T", bound="OpenQuestionAnswer")


@_attrs_define
class OpenQuestionAnswer:
    """A field of the question that the launch does not say.

    Attributes:
        field (str): Path of the field in the question.
        why (str): Why the launch does not say it.
        choices (list[bool | float | int | str]): Values that it may have; the first holds unless it is `missing`.
        lower_bound (int | None): The value with which memory is least: what does not fit with it does not fit whatever
            the field is. Null where none is known to be.
    """

    field: str
    why: str
    choices: list[bool | float | int | str]
    lower_bound: int | None
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        field = self.field

        why = self.why

        choices = []
        for choices_item_data in self.choices:
            choices_item: bool | float | int | str
            choices_item = choices_item_data
            choices.append(choices_item)

        lower_bound: int | None
        lower_bound = self.lower_bound

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "field": field,
                "why": why,
                "choices": choices,
                "lower_bound": lower_bound,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        field = d.pop("field")

        why = d.pop("why")

        choices = []
        _choices = d.pop("choices")
        for choices_item_data in _choices:

            def _parse_choices_item(data: object) -> bool | float | int | str:
                return cast(bool | float | int | str, data)

            choices_item = _parse_choices_item(choices_item_data)

            choices.append(choices_item)

        def _parse_lower_bound(data: object) -> int | None:
            if data is None:
                return data
            return cast(int | None, data)

        lower_bound = _parse_lower_bound(d.pop("lower_bound"))

        open_question_answer = cls(
            field=field,
            why=why,
            choices=choices,
            lower_bound=lower_bound,
        )

        open_question_answer.additional_properties = d
        return open_question_answer

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
