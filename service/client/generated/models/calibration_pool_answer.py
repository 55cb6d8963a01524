from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

if TYPE_CHECKING:
    from ..models.calibration_pool_answer_shares import CalibrationPoolAnswerShares


T = TypeVar("T", bound="CalibrationPoolAnswer")


@_attrs_define
class CalibrationPoolAnswer:
    """What keys have in common, which answers for those that nobody measured.

    Attributes:
        name (str): Name of the pool.
        level (str): `family` or `global`.
        quantity (str): What it corrects.
        kind (str): The kind of run, whose keys learn from each other.
        environment (str): What was measured on and with.
        family (None | str): Family of the models; null of what all families share.
        shares (CalibrationPoolAnswerShares): What is added, as shares of the analytic answer; of times the logarithm.
        keys (int): Keys that it rests on.
        measurements (int): Measurements that it rests on.
        half_width (float | None): Half the 0.95 interval of a key that nobody measured, as a share; null where too few
            keys are known.
        key_half_width (float | None): Half the 0.95 interval of other sizes of a measured key, as a share; null where
            too few are known.
    """

    name: str
    level: str
    quantity: str
    kind: str
    environment: str
    family: None | str
    shares: CalibrationPoolAnswerShares
    keys: int
    measurements: int
    half_width: float | None
    key_half_width: float | None
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        name = self.name

        level = self.level

        quantity = self.quantity

        kind = self.kind

        environment = self.environment

        family: None | str
        family = self.family

        shares = self.shares.to_dict()

        keys = self.keys

        measurements = self.measurements

        half_width: float | None
        half_width = self.half_width

        key_half_width: float | None
        key_half_width = self.key_half_width

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "name": name,
                "level": level,
                "quantity": quantity,
                "kind": kind,
                "environment": environment,
                "family": family,
                "shares": shares,
                "keys": keys,
                "measurements": measurements,
                "half_width": half_width,
                "key_half_width": key_half_width,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.calibration_pool_answer_shares import CalibrationPoolAnswerShares  # noqa: PLC0415

        d = dict(src_dict)
        name = d.pop("name")

        level = d.pop("level")

        quantity = d.pop("quantity")

        kind = d.pop("kind")

        environment = d.pop("environment")

        def _parse_family(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        family = _parse_family(d.pop("family"))

        shares = CalibrationPoolAnswerShares.from_dict(d.pop("shares"))

        keys = d.pop("keys")

        measurements = d.pop("measurements")

        def _parse_half_width(data: object) -> float | None:
            if data is None:
                return data
            return cast(float | None, data)

        half_width = _parse_half_width(d.pop("half_width"))

        def _parse_key_half_width(data: object) -> float | None:
            if data is None:
                return data
            return cast(float | None, data)

        key_half_width = _parse_key_half_width(d.pop("key_half_width"))

        calibration_pool_answer = cls(
            name=name,
            level=level,
            quantity=quantity,
            kind=kind,
            environment=environment,
            family=family,
            shares=shares,
            keys=keys,
            measurements=measurements,
            half_width=half_width,
            key_half_width=key_half_width,
        )

        calibration_pool_answer.additional_properties = d
        return calibration_pool_answer

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
