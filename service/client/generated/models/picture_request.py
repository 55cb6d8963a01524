from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define

from ..types import UNSET, Unset

T = TypeVar("T", bound="PictureRequest")


@_attrs_define
class PictureRequest:
    """Equal images of a sequence.

    Attributes:
        width (int): Pixels across.
        height (int): Pixels down.
        count (int | Unset): How many of them a sequence has. Default: 1.
    """

    width: int
    height: int
    count: int | Unset = 1

    def to_dict(self) -> dict[str, Any]:
        width = self.width

        height = self.height

        count = self.count

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "width": width,
                "height": height,
            }
        )
        if count is not UNSET:
            field_dict["count"] = count

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        width = d.pop("width")

        height = d.pop("height")

        count = d.pop("count", UNSET)

        picture_request = cls(
            width=width,
            height=height,
            count=count,
        )

        return picture_request
