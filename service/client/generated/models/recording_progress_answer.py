from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

T = TypeVar("T", bound="RecordingProgressAnswer")


@_attrs_define
class RecordingProgressAnswer:
    """How far the recording of a model is, or why there is none.

    Attributes:
        job (str): Id of its job; `GET /v1/measurements/{id}/events` follows it, and `DELETE /v1/measurements/{id}`
            cancels it.
        progress (float): Share that is done, from 0 to 1.
        phase (str): What is recorded now, or what it waits for.
        reason (None | str): Why it was refused, in the recorder's words; null while it goes on.
    """

    job: str
    progress: float
    phase: str
    reason: None | str
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        job = self.job

        progress = self.progress

        phase = self.phase

        reason: None | str
        reason = self.reason

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "job": job,
                "progress": progress,
                "phase": phase,
                "reason": reason,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        job = d.pop("job")

        progress = d.pop("progress")

        phase = d.pop("phase")

        def _parse_reason(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        reason = _parse_reason(d.pop("reason"))

        recording_progress_answer = cls(
            job=job,
            progress=progress,
            phase=phase,
            reason=reason,
        )

        recording_progress_answer.additional_properties = d
        return recording_progress_answer

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
