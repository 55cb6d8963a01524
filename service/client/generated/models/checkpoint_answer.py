from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

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
    """

    weights: int
    optimizer: int
    total: int
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        weights = self.weights

        optimizer = self.optimizer

        total = self.total

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "weights": weights,
                "optimizer": optimizer,
                "total": total,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        weights = d.pop("weights")

        optimizer = d.pop("optimizer")

        total = d.pop("total")

        checkpoint_answer = cls(
            weights=weights,
            optimizer=optimizer,
            total=total,
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
