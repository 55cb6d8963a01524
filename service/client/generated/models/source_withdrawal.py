from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define

from ..types import UNSET, Unset

T = TypeVar("T", bound="SourceWithdrawal")


@_attrs_define
class SourceWithdrawal:
    """The source that is not to teach any more.

    Attributes:
        source (str): Name of the key, or of whoever a token stands for.
        cluster (str | Unset): Only what the source says was measured on this cluster; default all.
    """

    source: str
    cluster: str | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        source = self.source

        cluster = self.cluster

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "source": source,
            }
        )
        if cluster is not UNSET:
            field_dict["cluster"] = cluster

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        source = d.pop("source")

        cluster = d.pop("cluster", UNSET)

        source_withdrawal = cls(
            source=source,
            cluster=cluster,
        )

        return source_withdrawal
