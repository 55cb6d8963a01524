from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..models.cause_name import CauseName, check_cause_name

T = TypeVar("T", bound="FailureChangeAnswer")


@_attrs_define
class FailureChangeAnswer:
    """What helps against a cause; those against the first cause come first, the smallest first.

    Attributes:
        cause (CauseName): Cause of a failure.
        action (str): What to do, in words.
        setting (None | str): What to write; null where that is no one word.
        frees_bytes (int | None): Bytes that it frees at least; null where nobody can say.
        fits (bool | None): Whether what failed would then have fitted, by the log's own numbers; null where they do not
            decide it.
    """

    cause: CauseName
    action: str
    setting: None | str
    frees_bytes: int | None
    fits: bool | None
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        cause: str = self.cause

        action = self.action

        setting: None | str
        setting = self.setting

        frees_bytes: int | None
        frees_bytes = self.frees_bytes

        fits: bool | None
        fits = self.fits

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "cause": cause,
                "action": action,
                "setting": setting,
                "frees_bytes": frees_bytes,
                "fits": fits,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        cause = check_cause_name(d.pop("cause"))

        action = d.pop("action")

        def _parse_setting(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        setting = _parse_setting(d.pop("setting"))

        def _parse_frees_bytes(data: object) -> int | None:
            if data is None:
                return data
            return cast(int | None, data)

        frees_bytes = _parse_frees_bytes(d.pop("frees_bytes"))

        def _parse_fits(data: object) -> bool | None:
            if data is None:
                return data
            return cast(bool | None, data)

        fits = _parse_fits(d.pop("fits"))

        failure_change_answer = cls(
            cause=cause,
            action=action,
            setting=setting,
            frees_bytes=frees_bytes,
            fits=fits,
        )

        failure_change_answer.additional_properties = d
        return failure_change_answer

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
