from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define
from attrs import field as _attrs_field

T = TypeVar("T", bound="MigSlicesAnswer")


@_attrs_define
class MigSlicesAnswer:
    """The slices of one profile on a node.

    Attributes:
        profile (str): The MIG profile.
        total (int): Slices of it on the node.
        allocated (int): Slices of it that others hold.
        free (int): Neither allocated nor reserved, on a node that takes work.
    """

    profile: str
    total: int
    allocated: int
    free: int
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        profile = self.profile

        total = self.total

        allocated = self.allocated

        free = self.free

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "profile": profile,
                "total": total,
                "allocated": allocated,
                "free": free,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        profile = d.pop("profile")

        total = d.pop("total")

        allocated = d.pop("allocated")

        free = d.pop("free")

        mig_slices_answer = cls(
            profile=profile,
            total=total,
            allocated=allocated,
            free=free,
        )

        mig_slices_answer.additional_properties = d
        return mig_slices_answer

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
