from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define
from attrs import field as _attrs_field

T = TypeVar("T", bound="ArtifactAnswer")


@_attrs_define
class ArtifactAnswer:
    """A file of a measurement; GET /v1/measurements/{id}/artifacts/{name} has what is in it.

    Attributes:
        name (str): Name of the file, the last part of its path.
        media_type (str): Its media type.
        bytes_ (int): Its size in bytes.
        sha256 (str): SHA-256 of its content, in hexadecimal digits.
    """

    name: str
    media_type: str
    bytes_: int
    sha256: str
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        name = self.name

        media_type = self.media_type

        bytes_ = self.bytes_

        sha256 = self.sha256

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "name": name,
                "media_type": media_type,
                "bytes": bytes_,
                "sha256": sha256,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        name = d.pop("name")

        media_type = d.pop("media_type")

        bytes_ = d.pop("bytes")

        sha256 = d.pop("sha256")

        artifact_answer = cls(
            name=name,
            media_type=media_type,
            bytes_=bytes_,
            sha256=sha256,
        )

        artifact_answer.additional_properties = d
        return artifact_answer

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
