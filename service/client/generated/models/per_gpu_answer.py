from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define
from attrs import field as _attrs_field

if TYPE_CHECKING:
    from ..models.component_answer import ComponentAnswer
    from ..models.instant_answer import InstantAnswer
    from ..models.intervals_answer import IntervalsAnswer
    from ..models.stage_answer import StageAnswer
    from ..models.worst_rank_answer import WorstRankAnswer


T = TypeVar("T", bound="PerGpuAnswer")


@_attrs_define
class PerGpuAnswer:
    """Memory of the worst rank.

    Attributes:
        allocated_bytes (int): Bytes of live tensors at the peak, torch.cuda.max_memory_allocated.
        reserved_bytes (int): Bytes that the allocator has taken, torch.cuda.max_memory_reserved.
        device_bytes (int): Bytes that NVML shows for the process.
        steady_bytes (int): Bytes that are allocated between steps.
        intervals (IntervalsAnswer): Bounds of the three quantities in bytes: low and high, at `level`.
        peak_instant (str): The instant with the most allocated bytes, one of `instants`.
        worst_rank (WorstRankAnswer): The rank that decides.
        components (list[ComponentAnswer]): The bytes by part; their sum is `device_bytes`. Empty where they were not
            asked for.
        instants (list[InstantAnswer]): The highest allocated bytes of each part of a step, in its order.
        phases (list[InstantAnswer]): Training: forward, backward and step as a profiler counts them, each pass with its
            part of the loss.
        stages (list[StageAnswer]): Each pipeline stage by itself; empty without a pipeline.
    """

    allocated_bytes: int
    reserved_bytes: int
    device_bytes: int
    steady_bytes: int
    intervals: IntervalsAnswer
    peak_instant: str
    worst_rank: WorstRankAnswer
    components: list[ComponentAnswer]
    instants: list[InstantAnswer]
    phases: list[InstantAnswer]
    stages: list[StageAnswer]
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        allocated_bytes = self.allocated_bytes

        reserved_bytes = self.reserved_bytes

        device_bytes = self.device_bytes

        steady_bytes = self.steady_bytes

        intervals = self.intervals.to_dict()

        peak_instant = self.peak_instant

        worst_rank = self.worst_rank.to_dict()

        components = []
        for components_item_data in self.components:
            components_item = components_item_data.to_dict()
            components.append(components_item)

        instants = []
        for instants_item_data in self.instants:
            instants_item = instants_item_data.to_dict()
            instants.append(instants_item)

        phases = []
        for phases_item_data in self.phases:
            phases_item = phases_item_data.to_dict()
            phases.append(phases_item)

        stages = []
        for stages_item_data in self.stages:
            stages_item = stages_item_data.to_dict()
            stages.append(stages_item)

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "allocated_bytes": allocated_bytes,
                "reserved_bytes": reserved_bytes,
                "device_bytes": device_bytes,
                "steady_bytes": steady_bytes,
                "intervals": intervals,
                "peak_instant": peak_instant,
                "worst_rank": worst_rank,
                "components": components,
                "instants": instants,
                "phases": phases,
                "stages": stages,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.component_answer import ComponentAnswer  # noqa: PLC0415
        from ..models.instant_answer import InstantAnswer  # noqa: PLC0415
        from ..models.intervals_answer import IntervalsAnswer  # noqa: PLC0415
        from ..models.stage_answer import StageAnswer  # noqa: PLC0415
        from ..models.worst_rank_answer import WorstRankAnswer  # noqa: PLC0415

        d = dict(src_dict)
        allocated_bytes = d.pop("allocated_bytes")

        reserved_bytes = d.pop("reserved_bytes")

        device_bytes = d.pop("device_bytes")

        steady_bytes = d.pop("steady_bytes")

        intervals = IntervalsAnswer.from_dict(d.pop("intervals"))

        peak_instant = d.pop("peak_instant")

        worst_rank = WorstRankAnswer.from_dict(d.pop("worst_rank"))

        components = []
        _components = d.pop("components")
        for components_item_data in _components:
            components_item = ComponentAnswer.from_dict(components_item_data)

            components.append(components_item)

        instants = []
        _instants = d.pop("instants")
        for instants_item_data in _instants:
            instants_item = InstantAnswer.from_dict(instants_item_data)

            instants.append(instants_item)

        phases = []
        _phases = d.pop("phases")
        for phases_item_data in _phases:
            phases_item = InstantAnswer.from_dict(phases_item_data)

            phases.append(phases_item)

        stages = []
        _stages = d.pop("stages")
        for stages_item_data in _stages:
            stages_item = StageAnswer.from_dict(stages_item_data)

            stages.append(stages_item)

        per_gpu_answer = cls(
            allocated_bytes=allocated_bytes,
            reserved_bytes=reserved_bytes,
            device_bytes=device_bytes,
            steady_bytes=steady_bytes,
            intervals=intervals,
            peak_instant=peak_instant,
            worst_rank=worst_rank,
            components=components,
            instants=instants,
            phases=phases,
            stages=stages,
        )

        per_gpu_answer.additional_properties = d
        return per_gpu_answer

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
