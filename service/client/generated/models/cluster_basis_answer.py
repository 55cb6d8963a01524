from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

T = TypeVar("T", bound="ClusterBasisAnswer")


@_attrs_define
class ClusterBasisAnswer:
    """What of an answer rests on measurements of a cluster's own GPUs.

    Attributes:
        name (str): The cluster, as the question names it.
        quantities (list[str]): Words of `bases` that rest on the cluster's own measurements, and `device` where its
            readings raise `device_bytes`; all others are as for such GPUs anywhere.
    """

    name: str
    quantities: list[str]
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        name = self.name

        quantities = self.quantities

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "name": name,
                "quantities": quantities,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        name = d.pop("name")

        quantities = cast(list[str], d.pop("quantities"))

        cluster_basis_answer = cls(
            name=name,
            quantities=quantities,
        )

        cluster_basis_answer.additional_properties = d
        return cluster_basis_answer

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
