from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

if TYPE_CHECKING:
    from ..models.calibration_answer_correction import CalibrationAnswerCorrection
    from ..models.calibration_answer_scope import CalibrationAnswerScope
    from ..models.drift_answer import DriftAnswer


T = TypeVar("T", bound="CalibrationAnswer")


@_attrs_define
class CalibrationAnswer:
    """What measurements taught about one key.

    Attributes:
        id (str): Id of the calibration.
        key (str): Hash of all that moves the curve: model, workload and layout, without batch, length and depth.
        quantity (str): What it corrects: `allocated`, `reserved`, `device`, `step_time` or `prefill_time`.
        kind (str): The kind of run, whose keys learn from each other.
        family (str): Family of the model.
        environment (str): What it was measured on and with.
        scope (CalibrationAnswerScope): What the key stands for, in words of a request.
        correction (CalibrationAnswerCorrection): The curves that are added to the analytic answer, in bytes or in
            logarithms of times, with the points that they rest on.
        evidence (list[str]): The measurements it rests on.
        drift (DriftAnswer): What newer measurements of the same question say of a calibration.
        created_at (str): When it was learnt, RFC 3339, UTC.
    """

    id: str
    key: str
    quantity: str
    kind: str
    family: str
    environment: str
    scope: CalibrationAnswerScope
    correction: CalibrationAnswerCorrection
    evidence: list[str]
    drift: DriftAnswer
    created_at: str
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        id = self.id

        key = self.key

        quantity = self.quantity

        kind = self.kind

        family = self.family

        environment = self.environment

        scope = self.scope.to_dict()

        correction = self.correction.to_dict()

        evidence = self.evidence

        drift = self.drift.to_dict()

        created_at = self.created_at

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "id": id,
                "key": key,
                "quantity": quantity,
                "kind": kind,
                "family": family,
                "environment": environment,
                "scope": scope,
                "correction": correction,
                "evidence": evidence,
                "drift": drift,
                "created_at": created_at,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.calibration_answer_correction import CalibrationAnswerCorrection  # noqa: PLC0415
        from ..models.calibration_answer_scope import CalibrationAnswerScope  # noqa: PLC0415
        from ..models.drift_answer import DriftAnswer  # noqa: PLC0415

        d = dict(src_dict)
        id = d.pop("id")

        key = d.pop("key")

        quantity = d.pop("quantity")

        kind = d.pop("kind")

        family = d.pop("family")

        environment = d.pop("environment")

        scope = CalibrationAnswerScope.from_dict(d.pop("scope"))

        correction = CalibrationAnswerCorrection.from_dict(d.pop("correction"))

        evidence = cast(list[str], d.pop("evidence"))

        drift = DriftAnswer.from_dict(d.pop("drift"))

        created_at = d.pop("created_at")

        calibration_answer = cls(
            id=id,
            key=key,
            quantity=quantity,
            kind=kind,
            family=family,
            environment=environment,
            scope=scope,
            correction=correction,
            evidence=evidence,
            drift=drift,
            created_at=created_at,
        )

        calibration_answer.additional_properties = d
        return calibration_answer

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
