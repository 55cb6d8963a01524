from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

T = TypeVar("T", bound="DriftAnswer")


@_attrs_define
class DriftAnswer:
    """What newer measurements of the same question say of a calibration.

    Attributes:
        stale (bool): Whether workers run other releases, drivers or GPUs now: it answers no more.
        current_environment (str): What runs now.
        measured (int): Measurements there that a calibration had promised something.
        outside (int): Of these, those outside of the 0.95 interval of what was promised.
        drifting (bool): Whether that is more than 97.5 % of all draws have at that level.
        bias (float | None): Mean of measured / analytic answer - 1 where it was learnt; null where nothing was.
        current_bias (float | None): The same where workers run now; null where nothing was measured there.
    """

    stale: bool
    current_environment: str
    measured: int
    outside: int
    drifting: bool
    bias: float | None
    current_bias: float | None
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        stale = self.stale

        current_environment = self.current_environment

        measured = self.measured

        outside = self.outside

        drifting = self.drifting

        bias: float | None
        bias = self.bias

        current_bias: float | None
        current_bias = self.current_bias

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "stale": stale,
                "current_environment": current_environment,
                "measured": measured,
                "outside": outside,
                "drifting": drifting,
                "bias": bias,
                "current_bias": current_bias,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        stale = d.pop("stale")

        current_environment = d.pop("current_environment")

        measured = d.pop("measured")

        outside = d.pop("outside")

        drifting = d.pop("drifting")

        def _parse_bias(data: object) -> float | None:
            if data is None:
                return data
            return cast(float | None, data)

        bias = _parse_bias(d.pop("bias"))

        def _parse_current_bias(data: object) -> float | None:
            if data is None:
                return data
            return cast(float | None, data)

        current_bias = _parse_current_bias(d.pop("current_bias"))

        drift_answer = cls(
            stale=stale,
            current_environment=current_environment,
            measured=measured,
            outside=outside,
            drifting=drifting,
            bias=bias,
            current_bias=current_bias,
        )

        drift_answer.additional_properties = d
        return drift_answer

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
