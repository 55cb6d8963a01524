from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define

from ..models.maximized import Maximized, check_maximized
from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.gpu_by_memory import GpuByMemory
    from ..models.inline_model import InlineModel
    from ..models.layout_request import LayoutRequest
    from ..models.serve_ceiling import ServeCeiling
    from ..models.train_ceiling import TrainCeiling


T = TypeVar("T", bound="CeilingRequest")


@_attrs_define
class CeilingRequest:
    """A question: the largest value that still fits.

    Absent words have the defaults of a fit; what is searched instead is named in `assumptions`.

        Attributes:
            workload (ServeCeiling | TrainCeiling): What runs; the word that is maximised may be left out.
            gpu (GpuByMemory | str): Name or alias of a GPU, or its memory.
            maximize (Maximized): Quantities that a ceiling question maximizes.
            model (InlineModel | str | Unset): Required, unless `num_parameters` is maximised: then its own size is not
                used.
            layout (LayoutRequest | Unset): How one job is spread over GPUs; their number is data x tensor x pipeline x
                context parallel.
            num_gpus (int | Unset): GPUs, in whichever layout goes furthest; absent, as many as `layout` says, replicas as
                it says.
            cluster (str | Unset): A stored cluster: what was measured on its GPUs comes before what such GPUs showed
                anywhere. `cluster` of the answer says what rests on it.
            confidence (float | None | Unset): Level of the intervals at whose upper end it must fit; `null` accepts what is
                tight. 0.5 to 0.97, as far as residuals carry; 0.95 at most for engines. Default: 0.95.
    """

    workload: ServeCeiling | TrainCeiling
    gpu: GpuByMemory | str
    maximize: Maximized
    model: InlineModel | str | Unset = UNSET
    layout: LayoutRequest | Unset = UNSET
    num_gpus: int | Unset = UNSET
    cluster: str | Unset = UNSET
    confidence: float | None | Unset = 0.95

    def to_dict(self) -> dict[str, Any]:
        from ..models.gpu_by_memory import GpuByMemory  # noqa: PLC0415
        from ..models.inline_model import InlineModel  # noqa: PLC0415
        from ..models.train_ceiling import TrainCeiling  # noqa: PLC0415

        workload: dict[str, Any]
        if isinstance(self.workload, TrainCeiling):
            workload = self.workload.to_dict()
        else:
            workload = self.workload.to_dict()

        gpu: dict[str, Any] | str
        if isinstance(self.gpu, GpuByMemory):
            gpu = self.gpu.to_dict()
        else:
            gpu = self.gpu

        maximize: str = self.maximize

        model: dict[str, Any] | str | Unset
        if isinstance(self.model, Unset):
            model = UNSET
        elif isinstance(self.model, InlineModel):
            model = self.model.to_dict()
        else:
            model = self.model

        layout: dict[str, Any] | Unset = UNSET
        if not isinstance(self.layout, Unset):
            layout = self.layout.to_dict()

        num_gpus = self.num_gpus

        cluster = self.cluster

        confidence: float | None | Unset
        if isinstance(self.confidence, Unset):
            confidence = UNSET
        else:
            confidence = self.confidence

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "workload": workload,
                "gpu": gpu,
                "maximize": maximize,
            }
        )
        if model is not UNSET:
            field_dict["model"] = model
        if layout is not UNSET:
            field_dict["layout"] = layout
        if num_gpus is not UNSET:
            field_dict["num_gpus"] = num_gpus
        if cluster is not UNSET:
            field_dict["cluster"] = cluster
        if confidence is not UNSET:
            field_dict["confidence"] = confidence

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.gpu_by_memory import GpuByMemory  # noqa: PLC0415
        from ..models.inline_model import InlineModel  # noqa: PLC0415
        from ..models.layout_request import LayoutRequest  # noqa: PLC0415
        from ..models.serve_ceiling import ServeCeiling  # noqa: PLC0415
        from ..models.train_ceiling import TrainCeiling  # noqa: PLC0415

        d = dict(src_dict)

        def _parse_workload(data: object) -> ServeCeiling | TrainCeiling:
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                workload_type_0 = TrainCeiling.from_dict(data)

                return workload_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            if not isinstance(data, dict):
                raise TypeError()
            workload_type_1 = ServeCeiling.from_dict(data)

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

        maximize = check_maximized(d.pop("maximize"))

        def _parse_model(data: object) -> InlineModel | str | Unset:
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                model_type_1 = InlineModel.from_dict(data)

                return model_type_1
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(InlineModel | str | Unset, data)

        model = _parse_model(d.pop("model", UNSET))

        _layout = d.pop("layout", UNSET)
        layout: LayoutRequest | Unset
        if isinstance(_layout, Unset):
            layout = UNSET
        else:
            layout = LayoutRequest.from_dict(_layout)

        num_gpus = d.pop("num_gpus", UNSET)

        cluster = d.pop("cluster", UNSET)

        def _parse_confidence(data: object) -> float | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(float | None | Unset, data)

        confidence = _parse_confidence(d.pop("confidence", UNSET))

        ceiling_request = cls(
            workload=workload,
            gpu=gpu,
            maximize=maximize,
            model=model,
            layout=layout,
            num_gpus=num_gpus,
            cluster=cluster,
            confidence=confidence,
        )

        return ceiling_request
