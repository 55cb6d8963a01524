from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define

from ..models.objective import Objective, check_objective
from ..models.plan_request_format_item import PlanRequestFormatItem, check_plan_request_format_item
from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.constraints import Constraints
    from ..models.format_options_request import FormatOptionsRequest
    from ..models.gpu_by_memory import GpuByMemory
    from ..models.inline_model import InlineModel
    from ..models.layout_request import LayoutRequest
    from ..models.plan_request_prices import PlanRequestPrices
    from ..models.serve_request import ServeRequest
    from ..models.train_request import TrainRequest


T = TypeVar("T", bound="PlanRequest")


@_attrs_define
class PlanRequest:
    """A question: the best set of GPUs and the layout on it; what is absent is searched.

    Attributes:
        model (InlineModel | str): Stored or catalogue name, or an inline model.
        workload (ServeRequest | TrainRequest): What runs; what it says is kept to the letter.
        gpus (list[GpuByMemory | str] | Unset): Kinds of GPUs in the order in which you would like them; a family name
            stands for its SKUs.
        cluster (str | Unset): In place of `gpus`: a stored cluster, with what is free on it; what was measured there
            comes first, as in a fit that names it.
        layout (LayoutRequest | Unset): How one job is spread over GPUs; their number is data x tensor x pipeline x
            context parallel.
        objective (Objective | Unset): Fewest GPUs, least cost or most tokens per second.

            Cost is that of the run where its tokens are given, else of an hour.

            Of equal ones the better plan is taken: it keeps every limit, makes the most tokens per second of the whole job,
            of all replicas where it serves, and of equally fast ones is the simplest.
        confidence (float | None | Unset): Level of the intervals at whose upper end it must fit; `null` accepts what is
            tight. 0.5 to 0.97, as far as residuals carry; 0.95 at most for engines. Default: 0.95.
        constraints (Constraints | Unset): Bounds of the search.
        prices (PlanRequestPrices | Unset): USD per GPU hour, in place of the price book's.
        pareto (bool | Unset): Ask for the front of memory, time and cost as well. Default: False.
        format_ (list[PlanRequestFormatItem] | Unset): Formats that `requests` of each candidate has as well, each by
            its word; null there where one cannot carry the candidate, for the reason in `launch.notes`.
        container_image (str | Unset): Image of the pods, in place of the engine's or framework's own.
        format_options (FormatOptionsRequest | Unset): Names and queues of an installation.
    """

    model: InlineModel | str
    workload: ServeRequest | TrainRequest
    gpus: list[GpuByMemory | str] | Unset = UNSET
    cluster: str | Unset = UNSET
    layout: LayoutRequest | Unset = UNSET
    objective: Objective | Unset = UNSET
    confidence: float | None | Unset = 0.95
    constraints: Constraints | Unset = UNSET
    prices: PlanRequestPrices | Unset = UNSET
    pareto: bool | Unset = False
    format_: list[PlanRequestFormatItem] | Unset = UNSET
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

        gpus: list[dict[str, Any] | str] | Unset = UNSET
        if not isinstance(self.gpus, Unset):
            gpus = []
            for gpus_item_data in self.gpus:
                gpus_item: dict[str, Any] | str
                if isinstance(gpus_item_data, GpuByMemory):
                    gpus_item = gpus_item_data.to_dict()
                else:
                    gpus_item = gpus_item_data
                gpus.append(gpus_item)

        cluster = self.cluster

        layout: dict[str, Any] | Unset = UNSET
        if not isinstance(self.layout, Unset):
            layout = self.layout.to_dict()

        objective: str | Unset = UNSET
        if not isinstance(self.objective, Unset):
            objective = self.objective

        confidence: float | None | Unset
        if isinstance(self.confidence, Unset):
            confidence = UNSET
        else:
            confidence = self.confidence

        constraints: dict[str, Any] | Unset = UNSET
        if not isinstance(self.constraints, Unset):
            constraints = self.constraints.to_dict()

        prices: dict[str, Any] | Unset = UNSET
        if not isinstance(self.prices, Unset):
            prices = self.prices.to_dict()

        pareto = self.pareto

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
            }
        )
        if gpus is not UNSET:
            field_dict["gpus"] = gpus
        if cluster is not UNSET:
            field_dict["cluster"] = cluster
        if layout is not UNSET:
            field_dict["layout"] = layout
        if objective is not UNSET:
            field_dict["objective"] = objective
        if confidence is not UNSET:
            field_dict["confidence"] = confidence
        if constraints is not UNSET:
            field_dict["constraints"] = constraints
        if prices is not UNSET:
            field_dict["prices"] = prices
        if pareto is not UNSET:
            field_dict["pareto"] = pareto
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
        from ..models.plan_request_prices import PlanRequestPrices  # noqa: PLC0415
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

        _gpus = d.pop("gpus", UNSET)
        gpus: list[GpuByMemory | str] | Unset = UNSET
        if _gpus is not UNSET:
            gpus = []
            for gpus_item_data in _gpus:

                def _parse_gpus_item(data: object) -> GpuByMemory | str:
                    try:
                        if not isinstance(data, dict):
                            raise TypeError()
                        gpus_item_type_1 = GpuByMemory.from_dict(data)

                        return gpus_item_type_1
                    except (TypeError, ValueError, AttributeError, KeyError):
                        pass
                    return cast(GpuByMemory | str, data)

                gpus_item = _parse_gpus_item(gpus_item_data)

                gpus.append(gpus_item)

        cluster = d.pop("cluster", UNSET)

        _layout = d.pop("layout", UNSET)
        layout: LayoutRequest | Unset
        if isinstance(_layout, Unset):
            layout = UNSET
        else:
            layout = LayoutRequest.from_dict(_layout)

        _objective = d.pop("objective", UNSET)
        objective: Objective | Unset
        if isinstance(_objective, Unset):
            objective = UNSET
        else:
            objective = check_objective(_objective)

        def _parse_confidence(data: object) -> float | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(float | None | Unset, data)

        confidence = _parse_confidence(d.pop("confidence", UNSET))

        _constraints = d.pop("constraints", UNSET)
        constraints: Constraints | Unset
        if isinstance(_constraints, Unset):
            constraints = UNSET
        else:
            constraints = Constraints.from_dict(_constraints)

        _prices = d.pop("prices", UNSET)
        prices: PlanRequestPrices | Unset
        if isinstance(_prices, Unset):
            prices = UNSET
        else:
            prices = PlanRequestPrices.from_dict(_prices)

        pareto = d.pop("pareto", UNSET)

        _format_ = d.pop("format", UNSET)
        format_: list[PlanRequestFormatItem] | Unset = UNSET
        if _format_ is not UNSET:
            format_ = []
            for format_item_data in _format_:
                format_item = check_plan_request_format_item(format_item_data)

                format_.append(format_item)

        container_image = d.pop("container_image", UNSET)

        _format_options = d.pop("format_options", UNSET)
        format_options: FormatOptionsRequest | Unset
        if isinstance(_format_options, Unset):
            format_options = UNSET
        else:
            format_options = FormatOptionsRequest.from_dict(_format_options)

        plan_request = cls(
            model=model,
            workload=workload,
            gpus=gpus,
            cluster=cluster,
            layout=layout,
            objective=objective,
            confidence=confidence,
            constraints=constraints,
            prices=prices,
            pareto=pareto,
            format_=format_,
            container_image=container_image,
            format_options=format_options,
        )

        return plan_request
