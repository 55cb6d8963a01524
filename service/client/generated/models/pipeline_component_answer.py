from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

if TYPE_CHECKING:
    from ..models.pipeline_component_answer_weight_bytes import PipelineComponentAnswerWeightBytes


T = TypeVar("T", bound="PipelineComponentAnswer")


@_attrs_define
class PipelineComponentAnswer:
    """One component of a pipeline: its class, its parameters and its bytes by format.

    Attributes:
        name (str): Name in `model_index.json`.
        library (str): Library of its class.
        class_name (str): Its class.
        num_parameters (int): Elements of its weights, exact.
        weight_bytes (PipelineComponentAnswerWeightBytes): Bytes of weights and buffers, by number format.
        source (None | str): Where its sizes were taken from; null where nobody said.
    """

    name: str
    library: str
    class_name: str
    num_parameters: int
    weight_bytes: PipelineComponentAnswerWeightBytes
    source: None | str
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        name = self.name

        library = self.library

        class_name = self.class_name

        num_parameters = self.num_parameters

        weight_bytes = self.weight_bytes.to_dict()

        source: None | str
        source = self.source

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "name": name,
                "library": library,
                "class_name": class_name,
                "num_parameters": num_parameters,
                "weight_bytes": weight_bytes,
                "source": source,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.pipeline_component_answer_weight_bytes import PipelineComponentAnswerWeightBytes  # noqa: PLC0415

        d = dict(src_dict)
        name = d.pop("name")

        library = d.pop("library")

        class_name = d.pop("class_name")

        num_parameters = d.pop("num_parameters")

        weight_bytes = PipelineComponentAnswerWeightBytes.from_dict(d.pop("weight_bytes"))

        def _parse_source(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        source = _parse_source(d.pop("source"))

        pipeline_component_answer = cls(
            name=name,
            library=library,
            class_name=class_name,
            num_parameters=num_parameters,
            weight_bytes=weight_bytes,
            source=source,
        )

        pipeline_component_answer.additional_properties = d
        return pipeline_component_answer

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
