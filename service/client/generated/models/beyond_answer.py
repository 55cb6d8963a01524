from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

T = TypeVar("T", bound="BeyondAnswer")


@_attrs_define
class BeyondAnswer:
    """What lies beyond the GPUs that the request allows, which are too few.

    Attributes:
        allowed_gpus (int): The largest number that the request allows.
        num_gpus (int | None): The fewest that are enough; null where none up to `max_gpus` is.
        max_gpus (int): The largest number that was searched.
    """

    allowed_gpus: int
    num_gpus: int | None
    max_gpus: int
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        allowed_gpus = self.allowed_gpus

        num_gpus: int | None
        num_gpus = self.num_gpus

        max_gpus = self.max_gpus

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "allowed_gpus": allowed_gpus,
                "num_gpus": num_gpus,
                "max_gpus": max_gpus,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        allowed_gpus = d.pop("allowed_gpus")

        def _parse_num_gpus(data: object) -> int | None:
            if data is None:
                return data
            return cast(int | None, data)

        num_gpus = _parse_num_gpus(d.pop("num_gpus"))

        max_gpus = d.pop("max_gpus")

        beyond_answer = cls(
            allowed_gpus=allowed_gpus,
            num_gpus=num_gpus,
            max_gpus=max_gpus,
        )

        beyond_answer.additional_properties = d
        return beyond_answer

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
