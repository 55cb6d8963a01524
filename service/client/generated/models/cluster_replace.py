from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define

from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.pool_request import PoolRequest


T = TypeVar("T", bound="ClusterReplace")


@_attrs_define
class ClusterReplace:
    """Everything that the cluster is from now on.

    Attributes:
        pools (list[PoolRequest]): Pools of equal nodes, 10,000 nodes in all at most.
        name (str | Unset): If given, the name in the path.
    """

    pools: list[PoolRequest]
    name: str | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        pools = []
        for pools_item_data in self.pools:
            pools_item = pools_item_data.to_dict()
            pools.append(pools_item)

        name = self.name

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "pools": pools,
            }
        )
        if name is not UNSET:
            field_dict["name"] = name

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.pool_request import PoolRequest  # noqa: PLC0415

        d = dict(src_dict)
        pools = []
        _pools = d.pop("pools")
        for pools_item_data in _pools:
            pools_item = PoolRequest.from_dict(pools_item_data)

            pools.append(pools_item)

        name = d.pop("name", UNSET)

        cluster_replace = cls(
            pools=pools,
            name=name,
        )

        return cluster_replace
