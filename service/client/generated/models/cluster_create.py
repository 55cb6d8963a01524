from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define

if TYPE_CHECKING:
    from ..models.pool_request import PoolRequest


T = TypeVar("T", bound="ClusterCreate")


@_attrs_define
class ClusterCreate:
    """A cluster to be stored.

    Attributes:
        name (str): Lower-case letters, digits, '.', '_' and '-'; at most 63 characters.
        pools (list[PoolRequest]): Pools of equal nodes, 10,000 nodes in all at most.
    """

    name: str
    pools: list[PoolRequest]

    def to_dict(self) -> dict[str, Any]:
        name = self.name

        pools = []
        for pools_item_data in self.pools:
            pools_item = pools_item_data.to_dict()
            pools.append(pools_item)

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "name": name,
                "pools": pools,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.pool_request import PoolRequest  # noqa: PLC0415

        d = dict(src_dict)
        name = d.pop("name")

        pools = []
        _pools = d.pop("pools")
        for pools_item_data in _pools:
            pools_item = PoolRequest.from_dict(pools_item_data)

            pools.append(pools_item)

        cluster_create = cls(
            name=name,
            pools=pools,
        )

        return cluster_create
