from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

T = TypeVar("T", bound="BasesAnswer")


@_attrs_define
class BasesAnswer:
    """What each quantity rests on: `analytic`, `calibrated` by measurements like it, or `measured` itself.

    Attributes:
        allocated (str): What the allocated bytes rest on.
        reserved (str): What is reserved beyond the allocated bytes.
        context (str): What lies on the GPU beside the allocator.
        step_time (str): Of a step, or of a decode step.
        prefill_time (None | str): Null where nothing is served.
    """

    allocated: str
    reserved: str
    context: str
    step_time: str
    prefill_time: None | str
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        allocated = self.allocated

        reserved = self.reserved

        context = self.context

        step_time = self.step_time

        prefill_time: None | str
        prefill_time = self.prefill_time

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "allocated": allocated,
                "reserved": reserved,
                "context": context,
                "step_time": step_time,
                "prefill_time": prefill_time,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        allocated = d.pop("allocated")

        reserved = d.pop("reserved")

        context = d.pop("context")

        step_time = d.pop("step_time")

        def _parse_prefill_time(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        prefill_time = _parse_prefill_time(d.pop("prefill_time"))

        bases_answer = cls(
            allocated=allocated,
            reserved=reserved,
            context=context,
            step_time=step_time,
            prefill_time=prefill_time,
        )

        bases_answer.additional_properties = d
        return bases_answer

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
