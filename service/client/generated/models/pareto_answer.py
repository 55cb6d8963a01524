from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

if TYPE_CHECKING:
    from ..models.memory_answer import MemoryAnswer
    from ..models.pareto_answer_layout import ParetoAnswerLayout
    from ..models.pareto_answer_workload import ParetoAnswerWorkload


T = TypeVar("T", bound="ParetoAnswer")


@_attrs_define
class ParetoAnswer:
    """A plan that no other beats in memory per GPU, time per token and cost at once, nor, of replicas, in the time of a
    decode step.

        Attributes:
            num_gpus (int): GPUs of the plan.
            gpu (MemoryAnswer | str): The GPU, as a request names or describes it.
            device_bytes (int): Bytes that NVML shows of the process on the worst rank.
            step_time_s (float | None): Seconds of one optimizer step, of one decode step with the full cache, or of one
                pass over all prompts where nothing is generated; null where the GPU's rates are not known. Plans are compared
                before measured steps correct their times.
            tokens_per_second (float | None): Tokens of the whole job per second; null where the GPU's rates are not known.
            cost_per_hour (float | None): USD per hour of all GPUs; null where nobody told a price.
            layout (ParetoAnswerLayout): The layout, complete; POST /v1/fit takes it as `layout`.
            workload (ParetoAnswerWorkload): The workload, complete; POST /v1/fit takes it as `workload`.
    """

    num_gpus: int
    gpu: MemoryAnswer | str
    device_bytes: int
    step_time_s: float | None
    tokens_per_second: float | None
    cost_per_hour: float | None
    layout: ParetoAnswerLayout
    workload: ParetoAnswerWorkload
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        from ..models.memory_answer import MemoryAnswer  # noqa: PLC0415

        num_gpus = self.num_gpus

        gpu: dict[str, Any] | str
        if isinstance(self.gpu, MemoryAnswer):
            gpu = self.gpu.to_dict()
        else:
            gpu = self.gpu

        device_bytes = self.device_bytes

        step_time_s: float | None
        step_time_s = self.step_time_s

        tokens_per_second: float | None
        tokens_per_second = self.tokens_per_second

        cost_per_hour: float | None
        cost_per_hour = self.cost_per_hour

        layout = self.layout.to_dict()

        workload = self.workload.to_dict()

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "num_gpus": num_gpus,
                "gpu": gpu,
                "device_bytes": device_bytes,
                "step_time_s": step_time_s,
                "tokens_per_second": tokens_per_second,
                "cost_per_hour": cost_per_hour,
                "layout": layout,
                "workload": workload,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.memory_answer import MemoryAnswer  # noqa: PLC0415
        from ..models.pareto_answer_layout import ParetoAnswerLayout  # noqa: PLC0415
        from ..models.pareto_answer_workload import ParetoAnswerWorkload  # noqa: PLC0415

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

        device_bytes = d.pop("device_bytes")

        def _parse_step_time_s(data: object) -> float | None:
            if data is None:
                return data
            return cast(float | None, data)

        step_time_s = _parse_step_time_s(d.pop("step_time_s"))

        def _parse_tokens_per_second(data: object) -> float | None:
            if data is None:
                return data
            return cast(float | None, data)

        tokens_per_second = _parse_tokens_per_second(d.pop("tokens_per_second"))

        def _parse_cost_per_hour(data: object) -> float | None:
            if data is None:
                return data
            return cast(float | None, data)

        cost_per_hour = _parse_cost_per_hour(d.pop("cost_per_hour"))

        layout = ParetoAnswerLayout.from_dict(d.pop("layout"))

        workload = ParetoAnswerWorkload.from_dict(d.pop("workload"))

        pareto_answer = cls(
            num_gpus=num_gpus,
            gpu=gpu,
            device_bytes=device_bytes,
            step_time_s=step_time_s,
            tokens_per_second=tokens_per_second,
            cost_per_hour=cost_per_hour,
            layout=layout,
            workload=workload,
        )

        pareto_answer.additional_properties = d
        return pareto_answer

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
