from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

if TYPE_CHECKING:
    from ..models.gpu_by_memory import GpuByMemory


T = TypeVar("T", bound="ClusterImportRequestGpus")


@_attrs_define
class ClusterImportRequestGpus:
    """What the tool's names of GPUs mean, where the catalogue has none or several: a name of the catalogue, or the memory
    that can be allocated.

    """

    additional_properties: dict[str, GpuByMemory | str] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        from ..models.gpu_by_memory import GpuByMemory  # noqa: PLC0415

        field_dict: dict[str, Any] = {}
        for prop_name, prop in self.additional_properties.items():
            if isinstance(prop, GpuByMemory):
                field_dict[prop_name] = prop.to_dict()
            else:
                field_dict[prop_name] = prop

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.gpu_by_memory import GpuByMemory  # noqa: PLC0415

        d = dict(src_dict)
        cluster_import_request_gpus = cls()

        additional_properties = {}
        for prop_name, prop_dict in d.items():

            def _parse_additional_property(data: object) -> GpuByMemory | str:
                try:
                    if not isinstance(data, dict):
                        raise TypeError()
                    additional_property_type_1 = GpuByMemory.from_dict(data)

                    return additional_property_type_1
                except (TypeError, ValueError, AttributeError, KeyError):
                    pass
                return cast(GpuByMemory | str, data)

            additional_property = _parse_additional_property(prop_dict)

            additional_properties[prop_name] = additional_property

        cluster_import_request_gpus.additional_properties = additional_properties
        return cluster_import_request_gpus

    @property
    def additional_keys(self) -> list[str]:
        return list(self.additional_properties.keys())

    def __getitem__(self, key: str) -> GpuByMemory | str:
        return self.additional_properties[key]

    def __setitem__(self, key: str, value: GpuByMemory | str) -> None:
        self.additional_properties[key] = value

    def __delitem__(self, key: str) -> None:
        del self.additional_properties[key]

    def __contains__(self, key: str) -> bool:
        return key in self.additional_properties
