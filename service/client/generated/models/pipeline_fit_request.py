from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define

from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.generate_request import GenerateRequest
    from ..models.gpu_by_memory import GpuByMemory
    from ..models.inline_pipeline import InlinePipeline


T = TypeVar("T", bound="PipelineFitRequest")


@_attrs_define
class PipelineFitRequest:
    """A question: does a call of this pipeline fit on this GPU.

    Attributes:
        pipeline (InlinePipeline | str): Name of a shipped pipeline, its id on the hub, or an inline one.
        workload (GenerateRequest): Images or videos that one call of a pipeline makes; steps take no memory.
        gpu (GpuByMemory | str): Name or alias of a GPU, or its memory.
        confidence (float | Unset): Level of the intervals: what `fits` does so at their upper end. 0.5 to 0.97, as far
            as residuals carry; 0.95 at most for engines. Default: 0.95.
        remedies (bool | Unset): Whether to look for what would help where it does not fit. Default: True.
    """

    pipeline: InlinePipeline | str
    workload: GenerateRequest
    gpu: GpuByMemory | str
    confidence: float | Unset = 0.95
    remedies: bool | Unset = True

    def to_dict(self) -> dict[str, Any]:
        from ..models.gpu_by_memory import GpuByMemory  # noqa: PLC0415
        from ..models.inline_pipeline import InlinePipeline  # noqa: PLC0415

        pipeline: dict[str, Any] | str
        if isinstance(self.pipeline, InlinePipeline):
            pipeline = self.pipeline.to_dict()
        else:
            pipeline = self.pipeline

        workload = self.workload.to_dict()

        gpu: dict[str, Any] | str
        if isinstance(self.gpu, GpuByMemory):
            gpu = self.gpu.to_dict()
        else:
            gpu = self.gpu

        confidence = self.confidence

        remedies = self.remedies

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "pipeline": pipeline,
                "workload": workload,
                "gpu": gpu,
            }
        )
        if confidence is not UNSET:
            field_dict["confidence"] = confidence
        if remedies is not UNSET:
            field_dict["remedies"] = remedies

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.generate_request import GenerateRequest  # noqa: PLC0415
        from ..models.gpu_by_memory import GpuByMemory  # noqa: PLC0415
        from ..models.inline_pipeline import InlinePipeline  # noqa: PLC0415

        d = dict(src_dict)

        def _parse_pipeline(data: object) -> InlinePipeline | str:
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                pipeline_type_1 = InlinePipeline.from_dict(data)

                return pipeline_type_1
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(InlinePipeline | str, data)

        pipeline = _parse_pipeline(d.pop("pipeline"))

        workload = GenerateRequest.from_dict(d.pop("workload"))

        def _parse_gpu(data: object) -> GpuByMemory | str:
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                gpu_type_1 = GpuByMemory.from_dict(data)

                return gpu_type_1
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(GpuByMemory | str, data)

        gpu = _parse_gpu(d.pop("gpu"))

        confidence = d.pop("confidence", UNSET)

        remedies = d.pop("remedies", UNSET)

        pipeline_fit_request = cls(
            pipeline=pipeline,
            workload=workload,
            gpu=gpu,
            confidence=confidence,
            remedies=remedies,
        )

        return pipeline_fit_request
