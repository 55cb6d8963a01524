from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define

from ..types import UNSET, Unset

T = TypeVar("T", bound="FieldDataDecision")


@_attrs_define
class FieldDataDecision:
    """Which measurements are meant: a source's, or those named.

    Attributes:
        source (str | Unset): All that wait of this source, at most 1,000 at once.
        ids (list[str] | Unset): These measurements, those that are held apart included.
        cluster (str | Unset): Only what the source says was measured on this cluster; default all.
    """

    source: str | Unset = UNSET
    ids: list[str] | Unset = UNSET
    cluster: str | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        source = self.source

        ids: list[str] | Unset = UNSET
        if not isinstance(self.ids, Unset):
            ids = self.ids

        cluster = self.cluster

        field_dict: dict[str, Any] = {}

        field_dict.update({})
        if source is not UNSET:
            field_dict["source"] = source
        if ids is not UNSET:
            field_dict["ids"] = ids
        if cluster is not UNSET:
            field_dict["cluster"] = cluster

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        source = d.pop("source", UNSET)

        ids = cast(list[str], d.pop("ids", UNSET))

        cluster = d.pop("cluster", UNSET)

        field_data_decision = cls(
            source=source,
            ids=ids,
            cluster=cluster,
        )

        return field_data_decision
