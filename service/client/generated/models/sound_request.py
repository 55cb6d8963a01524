from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define

from ..types import UNSET, Unset

T = TypeVar("T", bound="SoundRequest")


@_attrs_define
class SoundRequest:
    """Equal stretches of audio of a sequence.

    Attributes:
        seconds (float): Length of one, in seconds.
        count (int | Unset): How many of them a sequence has. Default: 1.
    """

    seconds: float
    count: int | Unset = 1

    def to_dict(self) -> dict[str, Any]:
        seconds = self.seconds

        count = self.count

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "seconds": seconds,
            }
        )
        if count is not UNSET:
            field_dict["count"] = count

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        seconds = d.pop("seconds")

        count = d.pop("count", UNSET)

        sound_request = cls(
            seconds=seconds,
            count=count,
        )

        return sound_request
