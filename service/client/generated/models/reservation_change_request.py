from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define

from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.scheduler_job_request import SchedulerJobRequest


T = TypeVar("T", bound="ReservationChangeRequest")


@_attrs_define
class ReservationChangeRequest:
    """Another end of a reservation, the job that it is for, or both.

    Attributes:
        expires_in_s (int | Unset): Seconds from now until it ends; absent: the end stays.
        expires_at (datetime.datetime | Unset): RFC 3339: when it ends, in place of `expires_in_s`.
        job (SchedulerJobRequest | Unset): A job as its scheduler calls it.
    """

    expires_in_s: int | Unset = UNSET
    expires_at: datetime.datetime | Unset = UNSET
    job: SchedulerJobRequest | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        expires_in_s = self.expires_in_s

        expires_at: str | Unset = UNSET
        if not isinstance(self.expires_at, Unset):
            expires_at = self.expires_at.isoformat()

        job: dict[str, Any] | Unset = UNSET
        if not isinstance(self.job, Unset):
            job = self.job.to_dict()

        field_dict: dict[str, Any] = {}

        field_dict.update({})
        if expires_in_s is not UNSET:
            field_dict["expires_in_s"] = expires_in_s
        if expires_at is not UNSET:
            field_dict["expires_at"] = expires_at
        if job is not UNSET:
            field_dict["job"] = job

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.scheduler_job_request import SchedulerJobRequest  # noqa: PLC0415

        d = dict(src_dict)
        expires_in_s = d.pop("expires_in_s", UNSET)

        _expires_at = d.pop("expires_at", UNSET)
        expires_at: datetime.datetime | Unset
        if isinstance(_expires_at, Unset):
            expires_at = UNSET
        else:
            expires_at = datetime.datetime.fromisoformat(_expires_at)

        _job = d.pop("job", UNSET)
        job: SchedulerJobRequest | Unset
        if isinstance(_job, Unset):
            job = UNSET
        else:
            job = SchedulerJobRequest.from_dict(_job)

        reservation_change_request = cls(
            expires_in_s=expires_in_s,
            expires_at=expires_at,
            job=job,
        )

        return reservation_change_request
