from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define
from attrs import field as _attrs_field

T = TypeVar("T", bound="SampleAnswer")


@_attrs_define
class SampleAnswer:
    """One reading of one counter.

    Attributes:
        attempt (int): The try that it is of.
        seq (int): Its number within the try.
        t_s (float): Seconds since the probe began.
        kind (str): Which counter was read: `allocated`, `reserved`, `device` and others.
        bytes_ (int): Its value in bytes.
    """

    attempt: int
    seq: int
    t_s: float
    kind: str
    bytes_: int
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        attempt = self.attempt

        seq = self.seq

        t_s = self.t_s

        kind = self.kind

        bytes_ = self.bytes_

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "attempt": attempt,
                "seq": seq,
                "t_s": t_s,
                "kind": kind,
                "bytes": bytes_,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        attempt = d.pop("attempt")

        seq = d.pop("seq")

        t_s = d.pop("t_s")

        kind = d.pop("kind")

        bytes_ = d.pop("bytes")

        sample_answer = cls(
            attempt=attempt,
            seq=seq,
            t_s=t_s,
            kind=kind,
            bytes_=bytes_,
        )

        sample_answer.additional_properties = d
        return sample_answer

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
