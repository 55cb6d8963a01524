from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

T = TypeVar("T", bound="RefusalAnswer")


@_attrs_define
class RefusalAnswer:
    """A way to train or serve a family that is refused, in the words of the refusal.

    Attributes:
        task (str): `train` or `serve`.
        runner (str): The framework or engine.
        method (None | str): The method of training, null where a model is served.
        reason (str): Why, and what would be right.
    """

    task: str
    runner: str
    method: None | str
    reason: str
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        task = self.task

        runner = self.runner

        method: None | str
        method = self.method

        reason = self.reason

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "task": task,
                "runner": runner,
                "method": method,
                "reason": reason,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        task = d.pop("task")

        runner = d.pop("runner")

        def _parse_method(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        method = _parse_method(d.pop("method"))

        reason = d.pop("reason")

        refusal_answer = cls(
            task=task,
            runner=runner,
            method=method,
            reason=reason,
        )

        refusal_answer.additional_properties = d
        return refusal_answer

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
