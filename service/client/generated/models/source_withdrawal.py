from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define

T = TypeVar("T", bound="SourceWithdrawal")


@_attrs_define
class SourceWithdrawal:
    """The source that is not to teach any more.

    Attributes:
        source (str): Name of the key, or of whoever a token stands for.
    """

    source: str

    def to_dict(self) -> dict[str, Any]:
        source = self.source

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "source": source,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        source = d.pop("source")

        source_withdrawal = cls(
            source=source,
        )

        return source_withdrawal
