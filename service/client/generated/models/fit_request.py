from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define

from ..models.fit_part import FitPart, check_fit_part
from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.gpu_by_memory import GpuByMemory
    from ..models.inline_model import InlineModel
    from ..models.layout_request import LayoutRequest
    from ..models.serve_request import ServeRequest
    from ..models.train_request import TrainRequest


T = TypeVar("T", bound="FitRequest")


@_attrs_define
class FitRequest:
    """A question: does this workload fit on this GPU in this layout.

    Attributes:
        model (InlineModel | str): Stored or catalogue name, or an inline model.
        workload (ServeRequest | TrainRequest): What runs.
        gpu (GpuByMemory | str): Name or alias of a GPU, or its memory.
        layout (LayoutRequest | Unset): How one job is spread over GPUs; their number is data x tensor x pipeline x
            context parallel.
        cluster (str | Unset): A stored cluster: what was measured on its GPUs comes before what such GPUs showed
            anywhere. `cluster` of the answer says what rests on it.
        confidence (float | Unset): Level of the intervals: what `fits` does so at their upper end. 0.5 to 0.97, as far
            as residuals carry; 0.95 at most for engines. Default: 0.95.
        remedies (bool | Unset): Whether to look for what would help where it does not fit, which takes longer than the
            answer itself. Default: True.
        include (list[FitPart] | Unset): What to work out beside the verdict, the bytes and their intervals; everything
            where this is not said. What is left out is empty or null: `components` are `per_gpu.components` and
            `checkpoint_bytes`; `instants` are `per_gpu.instants` and `per_gpu.phases`. Without `replay` reserved bytes are
            a ratio of the allocated ones that was measured, as in a batch, wherever no replay could turn the verdict.
            `remedies` come with a replay, and not at all where `remedies` is false.
    """

    model: InlineModel | str
    workload: ServeRequest | TrainRequest
    gpu: GpuByMemory | str
    layout: LayoutRequest | Unset = UNSET
    cluster: str | Unset = UNSET
    confidence: float | Unset = 0.95
    remedies: bool | Unset = True
    include: list[FitPart] | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        from ..models.gpu_by_memory import GpuByMemory  # noqa: PLC0415
        from ..models.inline_model import InlineModel  # noqa: PLC0415
        from ..models.train_request import TrainRequest  # noqa: PLC0415

        model: dict[str, Any] | str
        if isinstance(self.model, InlineModel):
            model = self.model.to_dict()
        else:
            model = self.model

        workload: dict[str, Any]
        if isinstance(self.workload, TrainRequest):
            workload = self.workload.to_dict()
        else:
            workload = self.workload.to_dict()

        gpu: dict[str, Any] | str
        if isinstance(self.gpu, GpuByMemory):
            gpu = self.gpu.to_dict()
        else:
            gpu = self.gpu

        layout: dict[str, Any] | Unset = UNSET
        if not isinstance(self.layout, Unset):
            layout = self.layout.to_dict()

        cluster = self.cluster

        confidence = self.confidence

        remedies = self.remedies

        include: list[str] | Unset = UNSET
        if not isinstance(self.include, Unset):
            include = []
            for include_item_data in self.include:
                include_item: str = include_item_data
                include.append(include_item)

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "model": model,
                "workload": workload,
                "gpu": gpu,
            }
        )
        if layout is not UNSET:
            field_dict["layout"] = layout
        if cluster is not UNSET:
            field_dict["cluster"] = cluster
        if confidence is not UNSET:
            field_dict["confidence"] = confidence
        if remedies is not UNSET:
            field_dict["remedies"] = remedies
        if include is not UNSET:
            field_dict["include"] = include

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.gpu_by_memory import GpuByMemory  # noqa: PLC0415
        from ..models.inline_model import InlineModel  # noqa: PLC0415
        from ..models.layout_request import LayoutRequest  # noqa: PLC0415
        from ..models.serve_request import ServeRequest  # noqa: PLC0415
        from ..models.train_request import TrainRequest  # noqa: PLC0415

        d = dict(src_dict)

        def _parse_model(data: object) -> InlineModel | str:
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                model_type_1 = InlineModel.from_dict(data)

                return model_type_1
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(InlineModel | str, data)

        model = _parse_model(d.pop("model"))

        def _parse_workload(data: object) -> ServeRequest | TrainRequest:
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                workload_type_0 = TrainRequest.from_dict(data)

                return workload_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            if not isinstance(data, dict):
                raise TypeError()
            workload_type_1 = ServeRequest.from_dict(data)

            return workload_type_1

        workload = _parse_workload(d.pop("workload"))

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

        _layout = d.pop("layout", UNSET)
        layout: LayoutRequest | Unset
        if isinstance(_layout, Unset):
            layout = UNSET
        else:
            layout = LayoutRequest.from_dict(_layout)

        cluster = d.pop("cluster", UNSET)

        confidence = d.pop("confidence", UNSET)

        remedies = d.pop("remedies", UNSET)

        _include = d.pop("include", UNSET)
        include: list[FitPart] | Unset = UNSET
        if _include is not UNSET:
            include = []
            for include_item_data in _include:
                include_item = check_fit_part(include_item_data)

                include.append(include_item)

        fit_request = cls(
            model=model,
            workload=workload,
            gpu=gpu,
            layout=layout,
            cluster=cluster,
            confidence=confidence,
            remedies=remedies,
            include=include,
        )

        return fit_request
