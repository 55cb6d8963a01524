from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

T = TypeVar("T", bound="ErrorAnswer")


@_attrs_define
class ErrorAnswer:
    """Relative errors: answer / measured - 1.

    Attributes:
        median (float): Of the absolute errors.
        p95 (float): Of the absolute errors.
        bias (float): Mean of the signed errors.
        coverage (float | None): Share of measurements in their 0.95 interval; null where the answers had none.
        width (float | None): Mean width of the intervals over what was measured; null where the answers had none.
    """

    median: float
    p95: float
    bias: float
    coverage: float | None
    width: float | None
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        median = self.median

        p95 = self.p95

        bias = self.bias

        coverage: float | None
        coverage = self.coverage

        width: float | None
        width = self.width

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "median": median,
                "p95": p95,
                "bias": bias,
                "coverage": coverage,
                "width": width,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        median = d.pop("median")

        p95 = d.pop("p95")

        bias = d.pop("bias")

        def _parse_coverage(data: object) -> float | None:
            if data is None:
                return data
            return cast(float | None, data)

        coverage = _parse_coverage(d.pop("coverage"))

        def _parse_width(data: object) -> float | None:
            if data is None:
                return data
            return cast(float | None, data)

        width = _parse_width(d.pop("width"))

        error_answer = cls(
            median=median,
            p95=p95,
            bias=bias,
            coverage=coverage,
            width=width,
        )

        error_answer.additional_properties = d
        return error_answer

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
