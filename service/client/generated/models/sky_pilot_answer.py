from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define
from attrs import field as _attrs_field

T = TypeVar("T", bound="SkyPilotAnswer")


@_attrs_define
class SkyPilotAnswer:
    """The task as it is launched.

    Attributes:
        task (str): The task as YAML.
        skypilot_config (str): SkyPilot's settings, as they came.
    """

    task: str
    skypilot_config: str
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        task = self.task

        skypilot_config = self.skypilot_config

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "task": task,
                "skypilot_config": skypilot_config,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        task = d.pop("task")

        skypilot_config = d.pop("skypilot_config")

        sky_pilot_answer = cls(
            task=task,
            skypilot_config=skypilot_config,
        )

        sky_pilot_answer.additional_properties = d
        return sky_pilot_answer

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
