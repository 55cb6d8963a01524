from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define

from ..types import UNSET, Unset

T = TypeVar("T", bound="SeatRequest")


@_attrs_define
class SeatRequest:
    """GPUs that a plan gives to one replica on one node.

    Attributes:
        pool (str): Lower-case letters, digits, '.', '_' and '-'; at most 63 characters.
        num_gpus (int): GPUs, or slices where a MIG profile is named.
        node (str | Unset): Absent: any nodes of the pool, the fewest and fullest.
        gpu_indices (list[int] | None | Unset): Which GPUs; absent or null: any of the node.
        mig_profile (None | str | Unset): Profile of slices in place of whole GPUs; absent or null: whole GPUs.
        host_memory_bytes (int | str | Unset): Bytes of the host's memory for these GPUs together. Default: 0.
        replica (int | Unset): The replica, counted from 0. Default: 0.
    """

    pool: str
    num_gpus: int
    node: str | Unset = UNSET
    gpu_indices: list[int] | None | Unset = UNSET
    mig_profile: None | str | Unset = UNSET
    host_memory_bytes: int | str | Unset = 0
    replica: int | Unset = 0

    def to_dict(self) -> dict[str, Any]:
        pool = self.pool

        num_gpus = self.num_gpus

        node = self.node

        gpu_indices: list[int] | None | Unset
        if isinstance(self.gpu_indices, Unset):
            gpu_indices = UNSET
        elif isinstance(self.gpu_indices, list):
            gpu_indices = self.gpu_indices

        else:
            gpu_indices = self.gpu_indices

        mig_profile: None | str | Unset
        if isinstance(self.mig_profile, Unset):
            mig_profile = UNSET
        else:
            mig_profile = self.mig_profile

        host_memory_bytes: int | str | Unset
        if isinstance(self.host_memory_bytes, Unset):
            host_memory_bytes = UNSET
        else:
            host_memory_bytes = self.host_memory_bytes

        replica = self.replica

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "pool": pool,
                "num_gpus": num_gpus,
            }
        )
        if node is not UNSET:
            field_dict["node"] = node
        if gpu_indices is not UNSET:
            field_dict["gpu_indices"] = gpu_indices
        if mig_profile is not UNSET:
            field_dict["mig_profile"] = mig_profile
        if host_memory_bytes is not UNSET:
            field_dict["host_memory_bytes"] = host_memory_bytes
        if replica is not UNSET:
            field_dict["replica"] = replica

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        pool = d.pop("pool")

        num_gpus = d.pop("num_gpus")

        node = d.pop("node", UNSET)

        def _parse_gpu_indices(data: object) -> list[int] | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, list):
                    raise TypeError()
                gpu_indices_type_0 = cast(list[int], data)

                return gpu_indices_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(list[int] | None | Unset, data)

        gpu_indices = _parse_gpu_indices(d.pop("gpu_indices", UNSET))

        def _parse_mig_profile(data: object) -> None | str | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(None | str | Unset, data)

        mig_profile = _parse_mig_profile(d.pop("mig_profile", UNSET))

        def _parse_host_memory_bytes(data: object) -> int | str | Unset:
            if isinstance(data, Unset):
                return data
            return cast(int | str | Unset, data)

        host_memory_bytes = _parse_host_memory_bytes(d.pop("host_memory_bytes", UNSET))

        replica = d.pop("replica", UNSET)

        seat_request = cls(
            pool=pool,
            num_gpus=num_gpus,
            node=node,
            gpu_indices=gpu_indices,
            mig_profile=mig_profile,
            host_memory_bytes=host_memory_bytes,
            replica=replica,
        )

        return seat_request
