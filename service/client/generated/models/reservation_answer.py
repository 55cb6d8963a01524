from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

if TYPE_CHECKING:
    from ..models.scheduler_job_answer import SchedulerJobAnswer
    from ..models.share_answer import ShareAnswer


T = TypeVar("T", bound="ReservationAnswer")


@_attrs_define
class ReservationAnswer:
    """A reservation that lives.

    Attributes:
        id (str): Id of the reservation.
        cluster (str): Name of the cluster.
        holder (str): Who it is for.
        num_gpus (int): Whole GPUs of all nodes.
        gpus (list[ShareAnswer]): The GPUs, node by node.
        created_at (str): RFC 3339, UTC.
        expires_at (str): RFC 3339, UTC.
        job (None | SchedulerJobAnswer): The job that it is for; null where nobody said.
        created_by (None | str): Name of the key that made it, which may change it; null where it is older than owners:
            anybody may.
    """

    id: str
    cluster: str
    holder: str
    num_gpus: int
    gpus: list[ShareAnswer]
    created_at: str
    expires_at: str
    job: None | SchedulerJobAnswer
    created_by: None | str
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        from ..models.scheduler_job_answer import SchedulerJobAnswer  # noqa: PLC0415

        id = self.id

        cluster = self.cluster

        holder = self.holder

        num_gpus = self.num_gpus

        gpus = []
        for gpus_item_data in self.gpus:
            gpus_item = gpus_item_data.to_dict()
            gpus.append(gpus_item)

        created_at = self.created_at

        expires_at = self.expires_at

        job: dict[str, Any] | None
        if isinstance(self.job, SchedulerJobAnswer):
            job = self.job.to_dict()
        else:
            job = self.job

        created_by: None | str
        created_by = self.created_by

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "id": id,
                "cluster": cluster,
                "holder": holder,
                "num_gpus": num_gpus,
                "gpus": gpus,
                "created_at": created_at,
                "expires_at": expires_at,
                "job": job,
                "created_by": created_by,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.scheduler_job_answer import SchedulerJobAnswer  # noqa: PLC0415
        from ..models.share_answer import ShareAnswer  # noqa: PLC0415

        d = dict(src_dict)
        id = d.pop("id")

        cluster = d.pop("cluster")

        holder = d.pop("holder")

        num_gpus = d.pop("num_gpus")

        gpus = []
        _gpus = d.pop("gpus")
        for gpus_item_data in _gpus:
            gpus_item = ShareAnswer.from_dict(gpus_item_data)

            gpus.append(gpus_item)

        created_at = d.pop("created_at")

        expires_at = d.pop("expires_at")

        def _parse_job(data: object) -> None | SchedulerJobAnswer:
            if data is None:
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                job_type_0 = SchedulerJobAnswer.from_dict(data)

                return job_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(None | SchedulerJobAnswer, data)

        job = _parse_job(d.pop("job"))

        def _parse_created_by(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        created_by = _parse_created_by(d.pop("created_by"))

        reservation_answer = cls(
            id=id,
            cluster=cluster,
            holder=holder,
            num_gpus=num_gpus,
            gpus=gpus,
            created_at=created_at,
            expires_at=expires_at,
            job=job,
            created_by=created_by,
        )

        reservation_answer.additional_properties = d
        return reservation_answer

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
