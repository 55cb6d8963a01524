from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define
from attrs import field as _attrs_field

if TYPE_CHECKING:
    from ..models.volcano_job import VolcanoJob


T = TypeVar("T", bound="JobEnqueueableRequest")


@_attrs_define
class JobEnqueueableRequest:
    """A job that waits to be queued.

    Attributes:
        job (VolcanoJob): A job of Volcano.
    """

    job: VolcanoJob
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        job = self.job.to_dict()

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "job": job,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.volcano_job import VolcanoJob  # noqa: PLC0415

        d = dict(src_dict)
        job = VolcanoJob.from_dict(d.pop("job"))

        job_enqueueable_request = cls(
            job=job,
        )

        job_enqueueable_request.additional_properties = d
        return job_enqueueable_request

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
