from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define

T = TypeVar("T", bound="SchedulerJobRequest")


@_attrs_define
class SchedulerJobRequest:
    """A job as its scheduler calls it.

    Attributes:
        scheduler (str): The scheduler that has the job.
        id (str): Its id or name there.
    """

    scheduler: str
    id: str

    def to_dict(self) -> dict[str, Any]:
        scheduler = self.scheduler

        id = self.id

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "scheduler": scheduler,
                "id": id,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        scheduler = d.pop("scheduler")

        id = d.pop("id")

        scheduler_job_request = cls(
            scheduler=scheduler,
            id=id,
        )

        return scheduler_job_request
