from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

T = TypeVar("T", bound="StageAnswer")


@_attrs_define
class StageAnswer:
    """One pipeline stage.

    Attributes:
        pipeline_stage (int): The stage, counted from 0.
        allocated_bytes (int): The most bytes of live tensors on one of its ranks.
        steady_bytes (int): Bytes of live tensors there between steps.
        layers (list[int]): Layers of each chunk, where it trains some.
        micro_batches_in_flight (list[int]): Micro-batches of each chunk.
    """

    pipeline_stage: int
    allocated_bytes: int
    steady_bytes: int
    layers: list[int]
    micro_batches_in_flight: list[int]
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        pipeline_stage = self.pipeline_stage

        allocated_bytes = self.allocated_bytes

        steady_bytes = self.steady_bytes

        layers = self.layers

        micro_batches_in_flight = self.micro_batches_in_flight

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "pipeline_stage": pipeline_stage,
                "allocated_bytes": allocated_bytes,
                "steady_bytes": steady_bytes,
                "layers": layers,
                "micro_batches_in_flight": micro_batches_in_flight,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        pipeline_stage = d.pop("pipeline_stage")

        allocated_bytes = d.pop("allocated_bytes")

        steady_bytes = d.pop("steady_bytes")

        layers = cast(list[int], d.pop("layers"))

        micro_batches_in_flight = cast(list[int], d.pop("micro_batches_in_flight"))

        stage_answer = cls(
            pipeline_stage=pipeline_stage,
            allocated_bytes=allocated_bytes,
            steady_bytes=steady_bytes,
            layers=layers,
            micro_batches_in_flight=micro_batches_in_flight,
        )

        stage_answer.additional_properties = d
        return stage_answer

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
