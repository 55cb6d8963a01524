from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define

from ..models.artifact_name import ArtifactName, check_artifact_name
from ..models.priority import Priority, check_priority
from ..models.probe_device import ProbeDevice, check_probe_device
from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.inline_model import InlineModel
    from ..models.layout_request import LayoutRequest
    from ..models.serve_request import ServeRequest
    from ..models.train_request import TrainRequest


T = TypeVar("T", bound="MeasurementRequest")


@_attrs_define
class MeasurementRequest:
    """A probe to be run.

    Attributes:
        model (InlineModel | str): Stored or catalogue name, or an inline model.
        workload (ServeRequest | TrainRequest): What runs.
        device (ProbeDevice | Unset): Device of a probe: a CPU, fake tensors, or a GPU.
        layout (LayoutRequest | Unset): How one job is spread over GPUs; their number is data x tensor x pipeline x
            context parallel.
        gpu (str | Unset): The GPU that the answer is wanted for.
        priority (Priority | Unset): Order of queued jobs.
        full_depth (bool | Unset): Run every layer instead of slices. Default: False.
        rank (int | Unset): Which rank of the layout is run; the first holds most. Default: 0.
        artifacts (list[ArtifactName] | Unset): To be kept beside the numbers. `memory_snapshot` is the caching
            allocator's, of the largest run, as https://pytorch.org/memory_viz and `torch.cuda._memory_viz` read it: CUDA's
            own on device cuda, whose steps are then not timed; on device trace every tensor led through the same allocator,
            with its module and its lines.
        dry_run (bool | Unset): Answer what would be run and how long it would take, and ask no worker for anything.
            Default: False.
    """

    model: InlineModel | str
    workload: ServeRequest | TrainRequest
    device: ProbeDevice | Unset = UNSET
    layout: LayoutRequest | Unset = UNSET
    gpu: str | Unset = UNSET
    priority: Priority | Unset = UNSET
    full_depth: bool | Unset = False
    rank: int | Unset = 0
    artifacts: list[ArtifactName] | Unset = UNSET
    dry_run: bool | Unset = False

    def to_dict(self) -> dict[str, Any]:
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

        device: str | Unset = UNSET
        if not isinstance(self.device, Unset):
            device = self.device

        layout: dict[str, Any] | Unset = UNSET
        if not isinstance(self.layout, Unset):
            layout = self.layout.to_dict()

        gpu = self.gpu

        priority: str | Unset = UNSET
        if not isinstance(self.priority, Unset):
            priority = self.priority

        full_depth = self.full_depth

        rank = self.rank

        artifacts: list[str] | Unset = UNSET
        if not isinstance(self.artifacts, Unset):
            artifacts = []
            for artifacts_item_data in self.artifacts:
                artifacts_item: str = artifacts_item_data
                artifacts.append(artifacts_item)

        dry_run = self.dry_run

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "model": model,
                "workload": workload,
            }
        )
        if device is not UNSET:
            field_dict["device"] = device
        if layout is not UNSET:
            field_dict["layout"] = layout
        if gpu is not UNSET:
            field_dict["gpu"] = gpu
        if priority is not UNSET:
            field_dict["priority"] = priority
        if full_depth is not UNSET:
            field_dict["full_depth"] = full_depth
        if rank is not UNSET:
            field_dict["rank"] = rank
        if artifacts is not UNSET:
            field_dict["artifacts"] = artifacts
        if dry_run is not UNSET:
            field_dict["dry_run"] = dry_run

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
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

        _device = d.pop("device", UNSET)
        device: ProbeDevice | Unset
        if isinstance(_device, Unset):
            device = UNSET
        else:
            device = check_probe_device(_device)

        _layout = d.pop("layout", UNSET)
        layout: LayoutRequest | Unset
        if isinstance(_layout, Unset):
            layout = UNSET
        else:
            layout = LayoutRequest.from_dict(_layout)

        gpu = d.pop("gpu", UNSET)

        _priority = d.pop("priority", UNSET)
        priority: Priority | Unset
        if isinstance(_priority, Unset):
            priority = UNSET
        else:
            priority = check_priority(_priority)

        full_depth = d.pop("full_depth", UNSET)

        rank = d.pop("rank", UNSET)

        _artifacts = d.pop("artifacts", UNSET)
        artifacts: list[ArtifactName] | Unset = UNSET
        if _artifacts is not UNSET:
            artifacts = []
            for artifacts_item_data in _artifacts:
                artifacts_item = check_artifact_name(artifacts_item_data)

                artifacts.append(artifacts_item)

        dry_run = d.pop("dry_run", UNSET)

        measurement_request = cls(
            model=model,
            workload=workload,
            device=device,
            layout=layout,
            gpu=gpu,
            priority=priority,
            full_depth=full_depth,
            rank=rank,
            artifacts=artifacts,
            dry_run=dry_run,
        )

        return measurement_request
