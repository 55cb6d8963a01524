from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define

from ..models.how_many_request_format_item import HowManyRequestFormatItem, check_how_many_request_format_item
from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.constraints import Constraints
    from ..models.format_options_request import FormatOptionsRequest
    from ..models.gpu_by_memory import GpuByMemory
    from ..models.inline_model import InlineModel
    from ..models.layout_request import LayoutRequest
    from ..models.serve_request import ServeRequest
    from ..models.train_request import TrainRequest


T = TypeVar("T", bound="HowManyRequest")


@_attrs_define
class HowManyRequest:
    """A question: how many GPUs; what is absent is searched, the framework that of a fit.

    Attributes:
        model (InlineModel | str): Stored or catalogue name, or an inline model.
        workload (ServeRequest | TrainRequest): What runs; what it leaves open is searched.
        gpu (GpuByMemory | str): Name, alias or family of the GPUs, or their memory.
        layout (LayoutRequest | Unset): How one job is spread over GPUs; their number is data x tensor x pipeline x
            context parallel.
        constraints (Constraints | Unset): Bounds of the search.
        cluster (str | Unset): A stored cluster: what was measured on its GPUs comes before what such GPUs showed
            anywhere. `cluster` of the answer says what rests on it.
        confidence (float | None | Unset): Level of the intervals at whose upper end it must fit; `null` accepts what is
            tight. 0.5 to 0.97, as far as residuals carry; 0.95 at most for engines. Default: 0.95.
        format_ (list[HowManyRequestFormatItem] | Unset): Formats that each candidate is rendered in, each by its word
            in `requests`; null there where one cannot carry the candidate, for the reason in `launch.notes`.
        container_image (str | Unset): With `format`: image of the pods, in place of the engine's or framework's own.
        format_options (FormatOptionsRequest | Unset): Names and queues of an installation.
    """

    model: InlineModel | str
    workload: ServeRequest | TrainRequest
    gpu: GpuByMemory | str
    layout: LayoutRequest | Unset = UNSET
    constraints: Constraints | Unset = UNSET
    cluster: str | Unset = UNSET
    confidence: float | None | Unset = 0.95
    format_: list[HowManyRequestFormatItem] | Unset = UNSET
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

        constraints: dict[str, Any] | Unset = UNSET
        if not isinstance(self.constraints, Unset):
            constraints = self.constraints.to_dict()

        cluster = self.cluster

        confidence: float | None | Unset
        if isinstance(self.confidence, Unset):
            confidence = UNSET
        else:
            confidence = self.confidence

        format_: list[str] | Unset = UNSET
        if not isinstance(self.format_, Unset):
            format_ = []
            for format_item_data in self.format_:
                format_item: str = format_item_data
                format_.append(format_item)

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
        if constraints is not UNSET:
            field_dict["constraints"] = constraints
        if cluster is not UNSET:
            field_dict["cluster"] = cluster
        if confidence is not UNSET:
            field_dict["confidence"] = confidence
        if format_ is not UNSET:
            field_dict["format"] = format_
        if container_image is not UNSET:
            field_dict["container_image"] = container_image
        if format_options is not UNSET:
            field_dict["format_options"] = format_options

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.constraints import Constraints  # noqa: PLC0415
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

        _constraints = d.pop("constraints", UNSET)
        constraints: Constraints | Unset
        if isinstance(_constraints, Unset):
            constraints = UNSET
        else:
            constraints = Constraints.from_dict(_constraints)

        cluster = d.pop("cluster", UNSET)

        def _parse_confidence(data: object) -> float | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(float | None | Unset, data)

        confidence = _parse_confidence(d.pop("confidence", UNSET))

        _format_ = d.pop("format", UNSET)
        format_: list[HowManyRequestFormatItem] | Unset = UNSET
        if _format_ is not UNSET:
            format_ = []
            for format_item_data in _format_:
                format_item = check_how_many_request_format_item(format_item_data)

                format_.append(format_item)

        container_image = d.pop("container_image", UNSET)

        _format_options = d.pop("format_options", UNSET)
        format_options: FormatOptionsRequest | Unset
        if isinstance(_format_options, Unset):
            format_options = UNSET
        else:
            format_options = FormatOptionsRequest.from_dict(_format_options)

        how_many_request = cls(
            model=model,
            workload=workload,
            gpu=gpu,
            layout=layout,
            constraints=constraints,
            cluster=cluster,
            confidence=confidence,
            format_=format_,
            container_image=container_image,
            format_options=format_options,
        )

        return how_many_request
