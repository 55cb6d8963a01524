from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.dstack_request_spec import DstackRequestSpec


T = TypeVar("T", bound="DstackRequest")


@_attrs_define
class DstackRequest:
    """A specification that somebody applies.

    Attributes:
        spec (DstackRequestSpec): The specification, such as a RunSpec.
        user (str | Unset): Name of the user. Default: ''.
        project (str | Unset): Name of the project. Default: ''.
    """

    spec: DstackRequestSpec
    user: str | Unset = ""
    project: str | Unset = ""
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        spec = self.spec.to_dict()

        user = self.user

        project = self.project

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "spec": spec,
            }
        )
        if user is not UNSET:
            field_dict["user"] = user
        if project is not UNSET:
            field_dict["project"] = project

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.dstack_request_spec import DstackRequestSpec  # noqa: PLC0415

        d = dict(src_dict)
        spec = DstackRequestSpec.from_dict(d.pop("spec"))

        user = d.pop("user", UNSET)

        project = d.pop("project", UNSET)

        dstack_request = cls(
            spec=spec,
            user=user,
            project=project,
        )

        dstack_request.additional_properties = d
        return dstack_request

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
