from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define
from attrs import field as _attrs_field

T = TypeVar("T", bound="InventorySums")


@_attrs_define
class InventorySums:
    """A cluster's size.

    Attributes:
        nodes (int): Nodes with and without names.
        gpus (int): GPUs of all nodes, drained ones too: what there is.
        free_gpus (int): Whole GPUs that can be given out now, beside live reservations.
    """

    nodes: int
    gpus: int
    free_gpus: int
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        nodes = self.nodes

        gpus = self.gpus

        free_gpus = self.free_gpus

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "nodes": nodes,
                "gpus": gpus,
                "free_gpus": free_gpus,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        nodes = d.pop("nodes")

        gpus = d.pop("gpus")

        free_gpus = d.pop("free_gpus")

        inventory_sums = cls(
            nodes=nodes,
            gpus=gpus,
            free_gpus=free_gpus,
        )

        inventory_sums.additional_properties = d
        return inventory_sums

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
