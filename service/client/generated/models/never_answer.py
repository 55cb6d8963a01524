from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..models.never_answer_status import NeverAnswerStatus, check_never_answer_status

T = TypeVar("T", bound="NeverAnswer")


@_attrs_define
class NeverAnswer:
    """Even the empty cluster could not hold it.

    Attributes:
        status (NeverAnswerStatus): Always `never`: by it a NeverAnswer is told from others.
        fits_now (bool): Whether it fits beside what is used and reserved now.
        fits_at_all (bool): Whether it fits on the empty cluster, with every node in service.
        reason (str): Why even the empty cluster is too small, in words.
        num_gpus (int): GPUs that are needed.
        total_gpus (int): GPUs of this kind on the empty cluster.
    """

    status: NeverAnswerStatus
    fits_now: bool
    fits_at_all: bool
    reason: str
    num_gpus: int
    total_gpus: int
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        status: str = self.status

        fits_now = self.fits_now

        fits_at_all = self.fits_at_all

        reason = self.reason

        num_gpus = self.num_gpus

        total_gpus = self.total_gpus

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "status": status,
                "fits_now": fits_now,
                "fits_at_all": fits_at_all,
                "reason": reason,
                "num_gpus": num_gpus,
                "total_gpus": total_gpus,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        status = check_never_answer_status(d.pop("status"))

        fits_now = d.pop("fits_now")

        fits_at_all = d.pop("fits_at_all")

        reason = d.pop("reason")

        num_gpus = d.pop("num_gpus")

        total_gpus = d.pop("total_gpus")

        never_answer = cls(
            status=status,
            fits_now=fits_now,
            fits_at_all=fits_at_all,
            reason=reason,
            num_gpus=num_gpus,
            total_gpus=total_gpus,
        )

        never_answer.additional_properties = d
        return never_answer

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
