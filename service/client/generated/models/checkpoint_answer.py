from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

T = TypeVar("T", bound="CheckpointAnswer")


@_attrs_define
class CheckpointAnswer:
    """A checkpoint on disk.

    Attributes:
        weights (int): Bytes of the weights, or of the adapters.
        optimizer (int): Bytes of the optimizer's states and master weights.
        total (int): Bytes of one checkpoint.
        save_total_limit (int | None): Checkpoints that are kept; null keeps all.
        disk (int | None): Bytes of those that are kept, and of the next, which is written before one goes; null where
            all are kept.
    """

    weights: int
    optimizer: int
    total: int
    save_total_limit: int | None
    disk: int | None
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        weights = self.weights

        optimizer = self.optimizer

        total = self.total

        save_total_limit: int | None
        save_total_limit = self.save_total_limit

        disk: int | None
        disk = self.disk

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "weights": weights,
                "optimizer": optimizer,
                "total": total,
                "save_total_limit": save_total_limit,
                "disk": disk,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        weights = d.pop("weights")

        optimizer = d.pop("optimizer")

        total = d.pop("total")

        def _parse_save_total_limit(data: object) -> int | None:
            if data is None:
                return data
            return cast(int | None, data)

        save_total_limit = _parse_save_total_limit(d.pop("save_total_limit"))

        def _parse_disk(data: object) -> int | None:
            if data is None:
                return data
            return cast(int | None, data)

        disk = _parse_disk(d.pop("disk"))

        checkpoint_answer = cls(
            weights=weights,
            optimizer=optimizer,
            total=total,
            save_total_limit=save_total_limit,
            disk=disk,
        )

        checkpoint_answer.additional_properties = d
        return checkpoint_answer

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
