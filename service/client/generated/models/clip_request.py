from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define

from ..types import UNSET, Unset

T = TypeVar("T", bound="ClipRequest")


@_attrs_define
class ClipRequest:
    """Equal videos of a sequence.

    Attributes:
        frames (int): Frames that the model reads, once sampled.
        width (int): Pixels across.
        height (int): Pixels down.
        count (int | Unset): How many of them a sequence has. Default: 1.
    """

    frames: int
    width: int
    height: int
    count: int | Unset = 1

    def to_dict(self) -> dict[str, Any]:
        frames = self.frames

        width = self.width

        height = self.height

        count = self.count

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "frames": frames,
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
        frames = d.pop("frames")

        width = d.pop("width")

        height = d.pop("height")

        count = d.pop("count", UNSET)

        clip_request = cls(
            frames=frames,
            width=width,
            height=height,
            count=count,
        )

        return clip_request
