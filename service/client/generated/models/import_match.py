from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define

from ..types import UNSET, Unset

T = TypeVar("T", bound="ImportMatch")


@_attrs_define
class ImportMatch:
    """Readings taken here; every word that is given must hold.

    Attributes:
        job (str | Unset): Slurm's job id, or `namespace/pod`.
        name (str | Unset): Name of the job.
        step (str | Unset): Step of the job: `batch`, `0`.
        host (str | Unset): Host name.
        gpu (str | Unset): Index or UUID of a GPU.
        pid (int | Unset): A process.
    """

    job: str | Unset = UNSET
    name: str | Unset = UNSET
    step: str | Unset = UNSET
    host: str | Unset = UNSET
    gpu: str | Unset = UNSET
    pid: int | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        job = self.job

        name = self.name

        step = self.step

        host = self.host

        gpu = self.gpu

        pid = self.pid

        field_dict: dict[str, Any] = {}

        field_dict.update({})
        if job is not UNSET:
            field_dict["job"] = job
        if name is not UNSET:
            field_dict["name"] = name
        if step is not UNSET:
            field_dict["step"] = step
        if host is not UNSET:
            field_dict["host"] = host
        if gpu is not UNSET:
            field_dict["gpu"] = gpu
        if pid is not UNSET:
            field_dict["pid"] = pid

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        job = d.pop("job", UNSET)

        name = d.pop("name", UNSET)

        step = d.pop("step", UNSET)

        host = d.pop("host", UNSET)

        gpu = d.pop("gpu", UNSET)

        pid = d.pop("pid", UNSET)

        import_match = cls(
            job=job,
            name=name,
            step=step,
            host=host,
            gpu=gpu,
            pid=pid,
        )

        return import_match
