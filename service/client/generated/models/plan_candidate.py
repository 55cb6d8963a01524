from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

if TYPE_CHECKING:
    from ..models.fit_answer import FitAnswer
    from ..models.memory_answer import MemoryAnswer
    from ..models.never_answer import NeverAnswer
    from ..models.not_today_answer import NotTodayAnswer
    from ..models.placed_answer import PlacedAnswer
    from ..models.plan_candidate_layout import PlanCandidateLayout
    from ..models.plan_candidate_requests_type_0 import PlanCandidateRequestsType0
    from ..models.plan_candidate_workload import PlanCandidateWorkload


T = TypeVar("T", bound="PlanCandidate")


@_attrs_define
class PlanCandidate:
    """A plan; sent to /v1/fit with the model, the GPU and any cluster its layout and workload give the same answer.

    Attributes:
        num_gpus (int): GPUs of the plan, all replicas together.
        gpu (MemoryAnswer | str): The GPU, as a request names or describes it.
        layout (PlanCandidateLayout): The layout, complete; POST /v1/fit takes it as `layout`.
        workload (PlanCandidateWorkload): The workload, complete; POST /v1/fit takes it as `workload`.
        fit (FitAnswer): The verdict, and everything it rests on.
        step_time_s (float | None): Seconds of one optimizer step, or of one decode step with the full cache; null where
            the GPU's rates are not known.
        tokens_per_second (float | None): Tokens of the whole job per second; null where the GPU's rates are not known.
        cost_per_hour (float | None): USD, of all GPUs; null where nobody told the price.
        cost_of_run (float | None): USD for the workload's `num_tokens`, which `cheapest` compares where they are said;
            null without them or a price.
        price_source (None | str): Where the price is from, and of when; null where there is none.
        placement (NeverAnswer | None | NotTodayAnswer | PlacedAnswer): Nodes of the cluster, or who is on them; null
            where no cluster was named.
        requests (None | PlanCandidateRequestsType0): The same as requests to schedulers and launchers; null where there
            is nothing to launch.
    """

    num_gpus: int
    gpu: MemoryAnswer | str
    layout: PlanCandidateLayout
    workload: PlanCandidateWorkload
    fit: FitAnswer
    step_time_s: float | None
    tokens_per_second: float | None
    cost_per_hour: float | None
    cost_of_run: float | None
    price_source: None | str
    placement: NeverAnswer | None | NotTodayAnswer | PlacedAnswer
    requests: None | PlanCandidateRequestsType0
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        from ..models.memory_answer import MemoryAnswer  # noqa: PLC0415
        from ..models.never_answer import NeverAnswer  # noqa: PLC0415
        from ..models.not_today_answer import NotTodayAnswer  # noqa: PLC0415
        from ..models.placed_answer import PlacedAnswer  # noqa: PLC0415
        from ..models.plan_candidate_requests_type_0 import PlanCandidateRequestsType0  # noqa: PLC0415

        num_gpus = self.num_gpus

        gpu: dict[str, Any] | str
        if isinstance(self.gpu, MemoryAnswer):
            gpu = self.gpu.to_dict()
        else:
            gpu = self.gpu

        layout = self.layout.to_dict()

        workload = self.workload.to_dict()

        fit = self.fit.to_dict()

        step_time_s: float | None
        step_time_s = self.step_time_s

        tokens_per_second: float | None
        tokens_per_second = self.tokens_per_second

        cost_per_hour: float | None
        cost_per_hour = self.cost_per_hour

        cost_of_run: float | None
        cost_of_run = self.cost_of_run

        price_source: None | str
        price_source = self.price_source

        placement: dict[str, Any] | None
        if isinstance(self.placement, PlacedAnswer):
            placement = self.placement.to_dict()
        elif isinstance(self.placement, NotTodayAnswer):
            placement = self.placement.to_dict()
        elif isinstance(self.placement, NeverAnswer):
            placement = self.placement.to_dict()
        else:
            placement = self.placement

        requests: dict[str, Any] | None
        if isinstance(self.requests, PlanCandidateRequestsType0):
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
                "fit": fit,
                "step_time_s": step_time_s,
                "tokens_per_second": tokens_per_second,
                "cost_per_hour": cost_per_hour,
                "cost_of_run": cost_of_run,
                "price_source": price_source,
                "placement": placement,
                "requests": requests,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.fit_answer import FitAnswer  # noqa: PLC0415
        from ..models.memory_answer import MemoryAnswer  # noqa: PLC0415
        from ..models.never_answer import NeverAnswer  # noqa: PLC0415
        from ..models.not_today_answer import NotTodayAnswer  # noqa: PLC0415
        from ..models.placed_answer import PlacedAnswer  # noqa: PLC0415
        from ..models.plan_candidate_layout import PlanCandidateLayout  # noqa: PLC0415
        from ..models.plan_candidate_requests_type_0 import PlanCandidateRequestsType0  # noqa: PLC0415
        from ..models.plan_candidate_workload import PlanCandidateWorkload  # noqa: PLC0415

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

        layout = PlanCandidateLayout.from_dict(d.pop("layout"))

        workload = PlanCandidateWorkload.from_dict(d.pop("workload"))

        fit = FitAnswer.from_dict(d.pop("fit"))

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

        def _parse_price_source(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        price_source = _parse_price_source(d.pop("price_source"))

        def _parse_placement(data: object) -> NeverAnswer | None | NotTodayAnswer | PlacedAnswer:
            if data is None:
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                placement_type_0_type_0 = PlacedAnswer.from_dict(data)

                return placement_type_0_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                placement_type_0_type_1 = NotTodayAnswer.from_dict(data)

                return placement_type_0_type_1
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                placement_type_0_type_2 = NeverAnswer.from_dict(data)

                return placement_type_0_type_2
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(NeverAnswer | None | NotTodayAnswer | PlacedAnswer, data)

        placement = _parse_placement(d.pop("placement"))

        def _parse_requests(data: object) -> None | PlanCandidateRequestsType0:
            if data is None:
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                requests_type_0 = PlanCandidateRequestsType0.from_dict(data)

                return requests_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(None | PlanCandidateRequestsType0, data)

        requests = _parse_requests(d.pop("requests"))

        plan_candidate = cls(
            num_gpus=num_gpus,
            gpu=gpu,
            layout=layout,
            workload=workload,
            fit=fit,
            step_time_s=step_time_s,
            tokens_per_second=tokens_per_second,
            cost_per_hour=cost_per_hour,
            cost_of_run=cost_of_run,
            price_source=price_source,
            placement=placement,
            requests=requests,
        )

        plan_candidate.additional_properties = d
        return plan_candidate

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
