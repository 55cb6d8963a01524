from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define
from attrs import field as _attrs_field

if TYPE_CHECKING:
    from ..models.inline_pipeline_configs_additional_property import InlinePipelineConfigsAdditionalProperty


T = TypeVar("T", bound="InlinePipelineConfigs")


@_attrs_define
class InlinePipelineConfigs:
    """The `config.json` of each component, by its name in `model_index.json`."""

    additional_properties: dict[str, InlinePipelineConfigsAdditionalProperty] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:

        field_dict: dict[str, Any] = {}
        for prop_name, prop in self.additional_properties.items():
            field_dict[prop_name] = prop.to_dict()

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.inline_pipeline_configs_additional_property import InlinePipelineConfigsAdditionalProperty  # noqa: PLC0415

        d = dict(src_dict)
        inline_pipeline_configs = cls()

        additional_properties = {}
        for prop_name, prop_dict in d.items():
            additional_property = InlinePipelineConfigsAdditionalProperty.from_dict(prop_dict)

            additional_properties[prop_name] = additional_property

        inline_pipeline_configs.additional_properties = additional_properties
        return inline_pipeline_configs

    @property
    def additional_keys(self) -> list[str]:
        return list(self.additional_properties.keys())

    def __getitem__(self, key: str) -> InlinePipelineConfigsAdditionalProperty:
        return self.additional_properties[key]

    def __setitem__(self, key: str, value: InlinePipelineConfigsAdditionalProperty) -> None:
        self.additional_properties[key] = value

    def __delitem__(self, key: str) -> None:
        del self.additional_properties[key]

    def __contains__(self, key: str) -> bool:
        return key in self.additional_properties
