from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define

from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.format_options_request import FormatOptionsRequest
    from ..models.gpu_by_memory import GpuByMemory
    from ..models.inline_model import InlineModel
    from ..models.layout_request import LayoutRequest
    from ..models.serve_request import ServeRequest
    from ..models.train_request import TrainRequest


T = TypeVar("T", bound="RenderingRequest")


@_attrs_define
class RenderingRequest:
    """A question of POST /v1/fit, to be started where it fits.

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
        container_image (str | Unset): Image of the pods, in place of the engine's or framework's own.
        format_options (FormatOptionsRequest | Unset): Names and queues of an installation.
    """

    model: InlineModel | str
    workload: ServeRequest | TrainRequest
    gpu: GpuByMemory | str
    layout: LayoutRequest | Unset = UNSET
    cluster: str | Unset = UNSET
    confidence: float | Unset = 0.95
    container_image: str | Unset = UNSET
    format_options: FormatOptionsRequest | Unset = UNSET

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

        container_image = self.container_image

        format_options: dict[str, Any] | Unset = UNSET
        if not isinstance(self.format_options, Unset):
            format_options = self.format_options.to_dict()

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
        if container_image is not UNSET:
            field_dict["container_image"] = container_image
        if format_options is not UNSET:
            field_dict["format_options"] = format_options

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.format_options_request import FormatOptionsRequest  # noqa: PLC0415
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

        container_image = d.pop("container_image", UNSET)

        _format_options = d.pop("format_options", UNSET)
        format_options: FormatOptionsRequest | Unset
        if isinstance(_format_options, Unset):
            format_options = UNSET
        else:
            format_options = FormatOptionsRequest.from_dict(_format_options)

        rendering_request = cls(
            model=model,
            workload=workload,
            gpu=gpu,
            layout=layout,
            cluster=cluster,
            confidence=confidence,
            container_image=container_image,
            format_options=format_options,
        )

        return rendering_request
