from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define

from ..types import UNSET, Unset

T = TypeVar("T", bound="MigSlicesRequest")


@_attrs_define
class MigSlicesRequest:
    """The slices of one profile on a node.

    Attributes:
        profile (str): A MIG profile of the GPU.
        total (int): Slices that there are.
        allocated (int | Unset): Slices that others hold. Default: 0.
    """

    profile: str
    total: int
    allocated: int | Unset = 0

    def to_dict(self) -> dict[str, Any]:
        profile = self.profile

        total = self.total

        allocated = self.allocated

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "profile": profile,
                "total": total,
            }
        )
        if allocated is not UNSET:
            field_dict["allocated"] = allocated

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        profile = d.pop("profile")

        total = d.pop("total")

        allocated = d.pop("allocated", UNSET)

        mig_slices_request = cls(
            profile=profile,
            total=total,
            allocated=allocated,
        )

        return mig_slices_request
