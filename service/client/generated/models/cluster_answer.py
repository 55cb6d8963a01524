from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.pool_answer import PoolAnswer


T = TypeVar("T", bound="ClusterAnswer")


@_attrs_define
class ClusterAnswer:
    """A stored cluster.

    Attributes:
        name (str): Name of the cluster.
        created_at (str): RFC 3339, UTC.
        updated_at (str): RFC 3339, UTC.
        pools (list[PoolAnswer]): Its pools, as they were sent.
        warnings (list[str] | Unset): Live reservations that this inventory cannot keep, nodes that nobody has seen for
            an hour, and GPUs of unknown memory.
    """

    name: str
    created_at: str
    updated_at: str
    pools: list[PoolAnswer]
    warnings: list[str] | Unset = UNSET
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        name = self.name

        created_at = self.created_at

        updated_at = self.updated_at

        pools = []
        for pools_item_data in self.pools:
            pools_item = pools_item_data.to_dict()
            pools.append(pools_item)

        warnings: list[str] | Unset = UNSET
        if not isinstance(self.warnings, Unset):
            warnings = self.warnings

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "name": name,
                "created_at": created_at,
                "updated_at": updated_at,
                "pools": pools,
            }
        )
        if warnings is not UNSET:
            field_dict["warnings"] = warnings

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.pool_answer import PoolAnswer  # noqa: PLC0415

        d = dict(src_dict)
        name = d.pop("name")

        created_at = d.pop("created_at")

        updated_at = d.pop("updated_at")

        pools = []
        _pools = d.pop("pools")
        for pools_item_data in _pools:
            pools_item = PoolAnswer.from_dict(pools_item_data)

            pools.append(pools_item)

        warnings = cast(list[str], d.pop("warnings", UNSET))

        cluster_answer = cls(
            name=name,
            created_at=created_at,
            updated_at=updated_at,
            pools=pools,
            warnings=warnings,
        )

        cluster_answer.additional_properties = d
        return cluster_answer

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
