from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define
from attrs import field as _attrs_field

T = TypeVar("T", bound="PlannedRunAnswer")


@_attrs_define
class PlannedRunAnswer:
    """One model that would be run; `sequence_length` counts what is decoded too.

    Attributes:
        num_layers (int): Layers of the model that this run would build.
        micro_batch_size (int): Sequences at once.
        sequence_length (int): Tokens of one sequence, those that are decoded included.
        output_tokens (int): Tokens of it that are decoded, 0 in training.
        why (str): What the run is for.
        expected_s (float): Seconds that it is expected to take on the device.
    """

    num_layers: int
    micro_batch_size: int
    sequence_length: int
    output_tokens: int
    why: str
    expected_s: float
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        num_layers = self.num_layers

        micro_batch_size = self.micro_batch_size

        sequence_length = self.sequence_length

        output_tokens = self.output_tokens

        why = self.why

        expected_s = self.expected_s

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "num_layers": num_layers,
                "micro_batch_size": micro_batch_size,
                "sequence_length": sequence_length,
                "output_tokens": output_tokens,
                "why": why,
                "expected_s": expected_s,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        num_layers = d.pop("num_layers")

        micro_batch_size = d.pop("micro_batch_size")

        sequence_length = d.pop("sequence_length")

        output_tokens = d.pop("output_tokens")

        why = d.pop("why")

        expected_s = d.pop("expected_s")

        planned_run_answer = cls(
            num_layers=num_layers,
            micro_batch_size=micro_batch_size,
            sequence_length=sequence_length,
            output_tokens=output_tokens,
            why=why,
            expected_s=expected_s,
        )

        planned_run_answer.additional_properties = d
        return planned_run_answer

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
