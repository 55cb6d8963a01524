from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..models.claim_state import ClaimState, check_claim_state

if TYPE_CHECKING:
    from ..models.import_item_environment import ImportItemEnvironment
    from ..models.import_item_peaks import ImportItemPeaks
    from ..models.import_item_prediction_type_0 import ImportItemPredictionType0
    from ..models.reading_answer import ReadingAnswer


T = TypeVar("T", bound="ImportItem")


@_attrs_define
class ImportItem:
    """One job as one measurement: that of its neediest rank.

    Attributes:
        job (None | str): The job as the file names it; null where it names none.
        status (str): `new`, `known` (stored before), `stored` (now) or `refused`, see `problems`.
        id (None | str): Id of the measurement; null until there is one.
        gpu (None | str): The GPU that it ran on; null where it is not known, which refuses it.
        environment (ImportItemEnvironment): What it ran on and with.
        peaks (ImportItemPeaks): The highest readings, by quantity.
        prediction (ImportItemPredictionType0 | None): Of each quantity: measured, predicted, before and after
            calibration; null where nothing could be predicted.
        readings (list[ReadingAnswer]): The numbers of the file that it is made of.
        notes (list[str]): What was filled in from the file.
        problems (list[str]): Why it was refused; empty where it was not.
        approval (ClaimState | None): Whether it teaches: `approved` ones do; `pending` ones wait for an operator,
            `held` ones too, and are approved by their ids alone. Null where it cannot be stored, or was before there were
            approvals.
        held_reason (None | str): Why it is held apart; null where it is not.
    """

    job: None | str
    status: str
    id: None | str
    gpu: None | str
    environment: ImportItemEnvironment
    peaks: ImportItemPeaks
    prediction: ImportItemPredictionType0 | None
    readings: list[ReadingAnswer]
    notes: list[str]
    problems: list[str]
    approval: ClaimState | None
    held_reason: None | str
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        from ..models.import_item_prediction_type_0 import ImportItemPredictionType0  # noqa: PLC0415

        job: None | str
        job = self.job

        status = self.status

        id: None | str
        id = self.id

        gpu: None | str
        gpu = self.gpu

        environment = self.environment.to_dict()

        peaks = self.peaks.to_dict()

        prediction: dict[str, Any] | None
        if isinstance(self.prediction, ImportItemPredictionType0):
            prediction = self.prediction.to_dict()
        else:
            prediction = self.prediction

        readings = []
        for readings_item_data in self.readings:
            readings_item = readings_item_data.to_dict()
            readings.append(readings_item)

        notes = self.notes

        problems = self.problems

        approval: None | str
        if isinstance(self.approval, str):
            approval = self.approval
        else:
            approval = self.approval

        held_reason: None | str
        held_reason = self.held_reason

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "job": job,
                "status": status,
                "id": id,
                "gpu": gpu,
                "environment": environment,
                "peaks": peaks,
                "prediction": prediction,
                "readings": readings,
                "notes": notes,
                "problems": problems,
                "approval": approval,
                "held_reason": held_reason,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.import_item_environment import ImportItemEnvironment  # noqa: PLC0415
        from ..models.import_item_peaks import ImportItemPeaks  # noqa: PLC0415
        from ..models.import_item_prediction_type_0 import ImportItemPredictionType0  # noqa: PLC0415
        from ..models.reading_answer import ReadingAnswer  # noqa: PLC0415

        d = dict(src_dict)

        def _parse_job(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        job = _parse_job(d.pop("job"))

        status = d.pop("status")

        def _parse_id(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        id = _parse_id(d.pop("id"))

        def _parse_gpu(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        gpu = _parse_gpu(d.pop("gpu"))

        environment = ImportItemEnvironment.from_dict(d.pop("environment"))

        peaks = ImportItemPeaks.from_dict(d.pop("peaks"))

        def _parse_prediction(data: object) -> ImportItemPredictionType0 | None:
            if data is None:
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                prediction_type_0 = ImportItemPredictionType0.from_dict(data)

                return prediction_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(ImportItemPredictionType0 | None, data)

        prediction = _parse_prediction(d.pop("prediction"))

        readings = []
        _readings = d.pop("readings")
        for readings_item_data in _readings:
            readings_item = ReadingAnswer.from_dict(readings_item_data)

            readings.append(readings_item)

        notes = cast(list[str], d.pop("notes"))

        problems = cast(list[str], d.pop("problems"))

        def _parse_approval(data: object) -> ClaimState | None:
            if data is None:
                return data
            try:
                if not isinstance(data, str):
                    raise TypeError()
                approval_type_0 = check_claim_state(data)

                return approval_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(ClaimState | None, data)

        approval = _parse_approval(d.pop("approval"))

        def _parse_held_reason(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        held_reason = _parse_held_reason(d.pop("held_reason"))

        import_item = cls(
            job=job,
            status=status,
            id=id,
            gpu=gpu,
            environment=environment,
            peaks=peaks,
            prediction=prediction,
            readings=readings,
            notes=notes,
            problems=problems,
            approval=approval,
            held_reason=held_reason,
        )

        import_item.additional_properties = d
        return import_item

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
