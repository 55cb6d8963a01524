from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

if TYPE_CHECKING:
    from ..models.worker_answer_devices_item import WorkerAnswerDevicesItem
    from ..models.worker_answer_observed_type_0 import WorkerAnswerObservedType0
    from ..models.worker_answer_versions import WorkerAnswerVersions


T = TypeVar("T", bound="WorkerAnswer")


@_attrs_define
class WorkerAnswer:
    """One worker that was seen.

    Attributes:
        name (str): Name of the worker.
        host (str): Host name of its machine.
        pid (int): Its process there.
        state (str): `idle`, `busy`, `stopped` or `gone`.
        devices (list[WorkerAnswerDevicesItem]): What it measures on. Of a GPU `sku` is the catalogue's name, and
            `mig_parent_uuid` names the GPU of a slice.
        observed (None | WorkerAnswerObservedType0): `used_bytes` and `foreign_processes` of its GPU when it was last
            idle: what others hold there. Null without a GPU.
        versions (WorkerAnswerVersions): Releases that it runs: Python, torch, transformers and others.
        current_job (None | str): Id of the measurement that it runs; null where it runs none.
        started_at (str): When it started, RFC 3339, UTC.
        last_heartbeat (str): When it was last heard of, RFC 3339, UTC.
    """

    name: str
    host: str
    pid: int
    state: str
    devices: list[WorkerAnswerDevicesItem]
    observed: None | WorkerAnswerObservedType0
    versions: WorkerAnswerVersions
    current_job: None | str
    started_at: str
    last_heartbeat: str
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        from ..models.worker_answer_observed_type_0 import WorkerAnswerObservedType0  # noqa: PLC0415

        name = self.name

        host = self.host

        pid = self.pid

        state = self.state

        devices = []
        for devices_item_data in self.devices:
            devices_item = devices_item_data.to_dict()
            devices.append(devices_item)

        observed: dict[str, Any] | None
        if isinstance(self.observed, WorkerAnswerObservedType0):
            observed = self.observed.to_dict()
        else:
            observed = self.observed

        versions = self.versions.to_dict()

        current_job: None | str
        current_job = self.current_job

        started_at = self.started_at

        last_heartbeat = self.last_heartbeat

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "name": name,
                "host": host,
                "pid": pid,
                "state": state,
                "devices": devices,
                "observed": observed,
                "versions": versions,
                "current_job": current_job,
                "started_at": started_at,
                "last_heartbeat": last_heartbeat,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.worker_answer_devices_item import WorkerAnswerDevicesItem  # noqa: PLC0415
        from ..models.worker_answer_observed_type_0 import WorkerAnswerObservedType0  # noqa: PLC0415
        from ..models.worker_answer_versions import WorkerAnswerVersions  # noqa: PLC0415

        d = dict(src_dict)
        name = d.pop("name")

        host = d.pop("host")

        pid = d.pop("pid")

        state = d.pop("state")

        devices = []
        _devices = d.pop("devices")
        for devices_item_data in _devices:
            devices_item = WorkerAnswerDevicesItem.from_dict(devices_item_data)

            devices.append(devices_item)

        def _parse_observed(data: object) -> None | WorkerAnswerObservedType0:
            if data is None:
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                observed_type_0 = WorkerAnswerObservedType0.from_dict(data)

                return observed_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(None | WorkerAnswerObservedType0, data)

        observed = _parse_observed(d.pop("observed"))

        versions = WorkerAnswerVersions.from_dict(d.pop("versions"))

        def _parse_current_job(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        current_job = _parse_current_job(d.pop("current_job"))

        started_at = d.pop("started_at")

        last_heartbeat = d.pop("last_heartbeat")

        worker_answer = cls(
            name=name,
            host=host,
            pid=pid,
            state=state,
            devices=devices,
            observed=observed,
            versions=versions,
            current_job=current_job,
            started_at=started_at,
            last_heartbeat=last_heartbeat,
        )

        worker_answer.additional_properties = d
        return worker_answer

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
