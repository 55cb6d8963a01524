from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..models.bound import Bound, check_bound

T = TypeVar("T", bound="ThroughputAnswer")


@_attrs_define
class ThroughputAnswer:
    """How long one optimizer step takes, or one decode step with the full cache, and why.

    Attributes:
        step_time_s (float): Seconds of one optimizer step, accumulation included, of one decode step with the full
            cache, or of one pass over all prompts where nothing is generated.
        tokens_per_second (float): Tokens of the whole job per second: trained, generated, or read where nothing is
            generated.
        tokens_per_second_per_gpu (float): The same over the number of GPUs.
        mfu (float): Share of the peak rate of all GPUs that the model's own products use (PaLM's model FLOPs
            utilization), 0 to 1.
        hours_for_tokens (float | None): Hours for the run's `num_tokens`; null where none are said.
        prefill_time_s (float | None): Seconds until all prompts are read; null in training.
        host_time_s (float): Seconds in which the host launches a step's kernels.
        gpu_time_s (float): Seconds in which the GPU runs them, without waiting for others.
        bound (Bound): The side that decides how long a step takes.
        bound_reason (str): Why, and what would help.
        basis (str): `analytic`, `calibrated` by times of runs like it, or `measured` itself.
    """

    step_time_s: float
    tokens_per_second: float
    tokens_per_second_per_gpu: float
    mfu: float
    hours_for_tokens: float | None
    prefill_time_s: float | None
    host_time_s: float
    gpu_time_s: float
    bound: Bound
    bound_reason: str
    basis: str
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        step_time_s = self.step_time_s

        tokens_per_second = self.tokens_per_second

        tokens_per_second_per_gpu = self.tokens_per_second_per_gpu

        mfu = self.mfu

        hours_for_tokens: float | None
        hours_for_tokens = self.hours_for_tokens

        prefill_time_s: float | None
        prefill_time_s = self.prefill_time_s

        host_time_s = self.host_time_s

        gpu_time_s = self.gpu_time_s

        bound: str = self.bound

        bound_reason = self.bound_reason

        basis = self.basis

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "step_time_s": step_time_s,
                "tokens_per_second": tokens_per_second,
                "tokens_per_second_per_gpu": tokens_per_second_per_gpu,
                "mfu": mfu,
                "hours_for_tokens": hours_for_tokens,
                "prefill_time_s": prefill_time_s,
                "host_time_s": host_time_s,
                "gpu_time_s": gpu_time_s,
                "bound": bound,
                "bound_reason": bound_reason,
                "basis": basis,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        step_time_s = d.pop("step_time_s")

        tokens_per_second = d.pop("tokens_per_second")

        tokens_per_second_per_gpu = d.pop("tokens_per_second_per_gpu")

        mfu = d.pop("mfu")

        def _parse_hours_for_tokens(data: object) -> float | None:
            if data is None:
                return data
            return cast(float | None, data)

        hours_for_tokens = _parse_hours_for_tokens(d.pop("hours_for_tokens"))

        def _parse_prefill_time_s(data: object) -> float | None:
            if data is None:
                return data
            return cast(float | None, data)

        prefill_time_s = _parse_prefill_time_s(d.pop("prefill_time_s"))

        host_time_s = d.pop("host_time_s")

        gpu_time_s = d.pop("gpu_time_s")

        bound = check_bound(d.pop("bound"))

        bound_reason = d.pop("bound_reason")

        basis = d.pop("basis")

        throughput_answer = cls(
            step_time_s=step_time_s,
            tokens_per_second=tokens_per_second,
            tokens_per_second_per_gpu=tokens_per_second_per_gpu,
            mfu=mfu,
            hours_for_tokens=hours_for_tokens,
            prefill_time_s=prefill_time_s,
            host_time_s=host_time_s,
            gpu_time_s=gpu_time_s,
            bound=bound,
            bound_reason=bound_reason,
            basis=basis,
        )

        throughput_answer.additional_properties = d
        return throughput_answer

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
