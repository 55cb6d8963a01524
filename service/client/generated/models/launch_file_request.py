from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define

T = TypeVar("T", bound="LaunchFileRequest")


@_attrs_define
class LaunchFileRequest:
    """A file of a launch.

    Attributes:
        name (str): Name or path of the file.
        content (str): Its text.
    """

    name: str
    content: str

    def to_dict(self) -> dict[str, Any]:
        name = self.name

        content = self.content

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "name": name,
                "content": content,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        name = d.pop("name")

        content = d.pop("content")

        launch_file_request = cls(
            name=name,
            content=content,
        )

        return launch_file_request
