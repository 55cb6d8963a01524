from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..types import UNSET, Unset

T = TypeVar("T", bound="SkyPilotRequest")


@_attrs_define
class SkyPilotRequest:
    """A task that somebody launches.

    Attributes:
        task (str): The task as YAML.
        skypilot_config (str | Unset): SkyPilot's settings as YAML. Default: '{}'.
        request_name (str | Unset): What is asked for, such as `launch` or `jobs.launch`. Default: ''.
        user (str | Unset): Who asks, as YAML; empty where the client's machine asks. Default: ''.
    """

    task: str
    skypilot_config: str | Unset = "{}"
    request_name: str | Unset = ""
    user: str | Unset = ""
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        task = self.task

        skypilot_config = self.skypilot_config

        request_name = self.request_name

        user = self.user

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "task": task,
            }
        )
        if skypilot_config is not UNSET:
            field_dict["skypilot_config"] = skypilot_config
        if request_name is not UNSET:
            field_dict["request_name"] = request_name
        if user is not UNSET:
            field_dict["user"] = user

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        task = d.pop("task")

        skypilot_config = d.pop("skypilot_config", UNSET)

        request_name = d.pop("request_name", UNSET)

        user = d.pop("user", UNSET)

        sky_pilot_request = cls(
            task=task,
            skypilot_config=skypilot_config,
            request_name=request_name,
            user=user,
        )

        sky_pilot_request.additional_properties = d
        return sky_pilot_request

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
