from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

if TYPE_CHECKING:
    from ..models.candidate_answer_layout import CandidateAnswerLayout
    from ..models.candidate_answer_requests_type_0 import CandidateAnswerRequestsType0
    from ..models.candidate_answer_workload import CandidateAnswerWorkload
    from ..models.memory_answer import MemoryAnswer


T = TypeVar("T", bound="CandidateAnswer")


@_attrs_define
class CandidateAnswer:
    """A configuration that is enough; sent to /v1/fit its layout and workload give the same bytes.

    Attributes:
        num_gpus (int): GPUs of the configuration.
        gpu (MemoryAnswer | str): The GPU, as a request names or describes it.
        layout (CandidateAnswerLayout): The layout, complete; POST /v1/fit takes it as `layout`.
        workload (CandidateAnswerWorkload): The workload, complete; POST /v1/fit takes it as `workload`.
        verdict (str): `fits`, or `tight` where the confidence allows it.
        allocated_bytes (int): The most bytes of live tensors on the worst rank.
        reserved_bytes (int): Bytes that PyTorch's allocator has taken there.
        device_bytes (int): Bytes that NVML shows of the process there.
        device_interval (list[int]): Lower and upper end of `device_bytes` at the level asked for.
        headroom_bytes (int): Usable bytes less device bytes.
        warnings (list[str]): What the answer does not hold for.
        requests (CandidateAnswerRequestsType0 | None): The same as requests to schedulers and launchers, as a plan has
            them; null where no `format` was asked for.
    """

    num_gpus: int
    gpu: MemoryAnswer | str
    layout: CandidateAnswerLayout
    workload: CandidateAnswerWorkload
    verdict: str
    allocated_bytes: int
    reserved_bytes: int
    device_bytes: int
    device_interval: list[int]
    headroom_bytes: int
    warnings: list[str]
    requests: CandidateAnswerRequestsType0 | None
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        from ..models.candidate_answer_requests_type_0 import CandidateAnswerRequestsType0  # noqa: PLC0415
        from ..models.memory_answer import MemoryAnswer  # noqa: PLC0415

        num_gpus = self.num_gpus

        gpu: dict[str, Any] | str
        if isinstance(self.gpu, MemoryAnswer):
            gpu = self.gpu.to_dict()
        else:
            gpu = self.gpu

        layout = self.layout.to_dict()

        workload = self.workload.to_dict()

        verdict = self.verdict

        allocated_bytes = self.allocated_bytes

        reserved_bytes = self.reserved_bytes

        device_bytes = self.device_bytes

        device_interval = self.device_interval

        headroom_bytes = self.headroom_bytes

        warnings = self.warnings

        requests: dict[str, Any] | None
        if isinstance(self.requests, CandidateAnswerRequestsType0):
            requests = self.requests.to_dict()
        else:
            requests = self.requests

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "num_gpus": num_gpus,
                "gpu": gpu,
                "layout": layout,
                "workload": workload,
                "verdict": verdict,
                "allocated_bytes": allocated_bytes,
                "reserved_bytes": reserved_bytes,
                "device_bytes": device_bytes,
                "device_interval": device_interval,
                "headroom_bytes": headroom_bytes,
                "warnings": warnings,
                "requests": requests,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.candidate_answer_layout import CandidateAnswerLayout  # noqa: PLC0415
        from ..models.candidate_answer_requests_type_0 import CandidateAnswerRequestsType0  # noqa: PLC0415
        from ..models.candidate_answer_workload import CandidateAnswerWorkload  # noqa: PLC0415
        from ..models.memory_answer import MemoryAnswer  # noqa: PLC0415

        d = dict(src_dict)
        num_gpus = d.pop("num_gpus")

        def _parse_gpu(data: object) -> MemoryAnswer | str:
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                gpu_type_1 = MemoryAnswer.from_dict(data)

                return gpu_type_1
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(MemoryAnswer | str, data)

        gpu = _parse_gpu(d.pop("gpu"))

        layout = CandidateAnswerLayout.from_dict(d.pop("layout"))

        workload = CandidateAnswerWorkload.from_dict(d.pop("workload"))

        verdict = d.pop("verdict")

        allocated_bytes = d.pop("allocated_bytes")

        reserved_bytes = d.pop("reserved_bytes")

        device_bytes = d.pop("device_bytes")

        device_interval = cast(list[int], d.pop("device_interval"))

        headroom_bytes = d.pop("headroom_bytes")

        warnings = cast(list[str], d.pop("warnings"))

        def _parse_requests(data: object) -> CandidateAnswerRequestsType0 | None:
            if data is None:
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                requests_type_0 = CandidateAnswerRequestsType0.from_dict(data)

                return requests_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(CandidateAnswerRequestsType0 | None, data)

        requests = _parse_requests(d.pop("requests"))

        candidate_answer = cls(
            num_gpus=num_gpus,
            gpu=gpu,
            layout=layout,
            workload=workload,
            verdict=verdict,
            allocated_bytes=allocated_bytes,
            reserved_bytes=reserved_bytes,
            device_bytes=device_bytes,
            device_interval=device_interval,
            headroom_bytes=headroom_bytes,
            warnings=warnings,
            requests=requests,
        )

        candidate_answer.additional_properties = d
        return candidate_answer

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
