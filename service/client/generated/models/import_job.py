from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define

from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.import_match import ImportMatch
    from ..models.inline_model import InlineModel
    from ..models.layout_request import LayoutRequest
    from ..models.serve_request import ServeRequest
    from ..models.train_request import TrainRequest


T = TypeVar("T", bound="ImportJob")


@_attrs_define
class ImportJob:
    """What some of the file's readings are of; what is left out is as the request has it for all.

    Attributes:
        match (ImportMatch): Readings taken here; every word that is given must hold.
        model (InlineModel | str | Unset): The model that ran.
        workload (ServeRequest | TrainRequest | Unset): What ran.
        layout (LayoutRequest | Unset): How one job is spread over GPUs; their number is data x tensor x pipeline x
            context parallel.
        gpu (str | Unset): The GPU it ran on, where the file does not say it.
    """

    match: ImportMatch
    model: InlineModel | str | Unset = UNSET
    workload: ServeRequest | TrainRequest | Unset = UNSET
    layout: LayoutRequest | Unset = UNSET
    gpu: str | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        from ..models.inline_model import InlineModel  # noqa: PLC0415
        from ..models.train_request import TrainRequest  # noqa: PLC0415

        match = self.match.to_dict()

        model: dict[str, Any] | str | Unset
        if isinstance(self.model, Unset):
            model = UNSET
        elif isinstance(self.model, InlineModel):
            model = self.model.to_dict()
        else:
            model = self.model

        workload: dict[str, Any] | Unset
        if isinstance(self.workload, Unset):
            workload = UNSET
        elif isinstance(self.workload, TrainRequest):
            workload = self.workload.to_dict()
        else:
            workload = self.workload.to_dict()

        layout: dict[str, Any] | Unset = UNSET
        if not isinstance(self.layout, Unset):
            layout = self.layout.to_dict()

        gpu = self.gpu

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "match": match,
            }
        )
        if model is not UNSET:
            field_dict["model"] = model
        if workload is not UNSET:
            field_dict["workload"] = workload
        if layout is not UNSET:
            field_dict["layout"] = layout
        if gpu is not UNSET:
            field_dict["gpu"] = gpu

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.import_match import ImportMatch  # noqa: PLC0415
        from ..models.inline_model import InlineModel  # noqa: PLC0415
        from ..models.layout_request import LayoutRequest  # noqa: PLC0415
        from ..models.serve_request import ServeRequest  # noqa: PLC0415
        from ..models.train_request import TrainRequest  # noqa: PLC0415

        d = dict(src_dict)
        match = ImportMatch.from_dict(d.pop("match"))

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

        def _parse_workload(data: object) -> ServeRequest | TrainRequest | Unset:
            if isinstance(data, Unset):
                return data
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

        workload = _parse_workload(d.pop("workload", UNSET))

        _layout = d.pop("layout", UNSET)
        layout: LayoutRequest | Unset
        if isinstance(_layout, Unset):
            layout = UNSET
        else:
            layout = LayoutRequest.from_dict(_layout)

        gpu = d.pop("gpu", UNSET)

        import_job = cls(
            match=match,
            model=model,
            workload=workload,
            layout=layout,
            gpu=gpu,
        )

        return import_job
