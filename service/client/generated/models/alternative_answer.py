from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

if TYPE_CHECKING:
    from ..models.memory_answer import MemoryAnswer


T = TypeVar("T", bound="AlternativeAnswer")


@_attrs_define
class AlternativeAnswer:
    """The best plan on one kind of GPU.

    Attributes:
        gpu (MemoryAnswer | str): The GPU, as a request names or describes it.
        pool (None | str): The pool of the cluster; null where the plan is on none.
        num_gpus (int | None): The fewest GPUs of this kind that are enough; null where none are.
        step_time_s (float | None): Seconds of one optimizer step, of one decode step with the full cache, or of one
            pass over all prompts where nothing is generated; null where the GPU's rates are not known. Plans are compared
            before measured steps correct their times.
        tokens_per_second (float | None): Of the whole plan; null where nothing is timed.
        cost_per_hour (float | None): USD per hour of all GPUs; null where nobody told a price.
        cost_of_run (float | None): USD for the workload's `num_tokens`; null without them.
        device_bytes (int | None): Bytes that NVML shows of the process on the worst rank; null where nothing is enough.
        reason (None | str): Why there is none; null where there is one.
    """

    gpu: MemoryAnswer | str
    pool: None | str
    num_gpus: int | None
    step_time_s: float | None
    tokens_per_second: float | None
    cost_per_hour: float | None
    cost_of_run: float | None
    device_bytes: int | None
    reason: None | str
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        from ..models.memory_answer import MemoryAnswer  # noqa: PLC0415

        gpu: dict[str, Any] | str
        if isinstance(self.gpu, MemoryAnswer):
            gpu = self.gpu.to_dict()
        else:
            gpu = self.gpu

        pool: None | str
        pool = self.pool

        num_gpus: int | None
        num_gpus = self.num_gpus

        step_time_s: float | None
        step_time_s = self.step_time_s

        tokens_per_second: float | None
        tokens_per_second = self.tokens_per_second

        cost_per_hour: float | None
        cost_per_hour = self.cost_per_hour

        cost_of_run: float | None
        cost_of_run = self.cost_of_run

        device_bytes: int | None
        device_bytes = self.device_bytes

        reason: None | str
        reason = self.reason

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "gpu": gpu,
                "pool": pool,
                "num_gpus": num_gpus,
                "step_time_s": step_time_s,
                "tokens_per_second": tokens_per_second,
                "cost_per_hour": cost_per_hour,
                "cost_of_run": cost_of_run,
                "device_bytes": device_bytes,
                "reason": reason,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.memory_answer import MemoryAnswer  # noqa: PLC0415

        d = dict(src_dict)

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

        def _parse_pool(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        pool = _parse_pool(d.pop("pool"))

        def _parse_num_gpus(data: object) -> int | None:
            if data is None:
                return data
            return cast(int | None, data)

        num_gpus = _parse_num_gpus(d.pop("num_gpus"))

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

        def _parse_cost_of_run(data: object) -> float | None:
            if data is None:
                return data
            return cast(float | None, data)

        cost_of_run = _parse_cost_of_run(d.pop("cost_of_run"))

        def _parse_device_bytes(data: object) -> int | None:
            if data is None:
                return data
            return cast(int | None, data)

        device_bytes = _parse_device_bytes(d.pop("device_bytes"))

        def _parse_reason(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        reason = _parse_reason(d.pop("reason"))

        alternative_answer = cls(
            gpu=gpu,
            pool=pool,
            num_gpus=num_gpus,
            step_time_s=step_time_s,
            tokens_per_second=tokens_per_second,
            cost_per_hour=cost_per_hour,
            cost_of_run=cost_of_run,
            device_bytes=device_bytes,
            reason=reason,
        )

        alternative_answer.additional_properties = d
        return alternative_answer

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
