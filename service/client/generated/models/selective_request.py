from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define

T = TypeVar("T", bound="SelectiveRequest")


@_attrs_define
class SelectiveRequest:
    """Recompute every n-th layer.

    Attributes:
        selective (int): Every how many layers: the first in transformers.
    """

    selective: int

    def to_dict(self) -> dict[str, Any]:
        selective = self.selective

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "selective": selective,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        selective = d.pop("selective")

        selective_request = cls(
            selective=selective,
        )

        return selective_request
