from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define

from ..models.format_ import Format, check_format
from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.import_environment import ImportEnvironment
    from ..models.import_job import ImportJob
    from ..models.import_match import ImportMatch
    from ..models.import_pod import ImportPod
    from ..models.inline_model import InlineModel
    from ..models.layout_request import LayoutRequest
    from ..models.serve_request import ServeRequest
    from ..models.train_request import TrainRequest


T = TypeVar("T", bound="ImportRequest")


@_attrs_define
class ImportRequest:
    """A file of the field, and the questions that its readings answer.

    Attributes:
        content (str | Unset): The file, as text.
        content_base64 (str | Unset): The file in base64, in place of `content`: a pickle.
        format_ (Format | Unset): Format of a measured file.
        dry_run (bool | Unset): Answer what would be stored, and store nothing. Default: True.
        question (str | Unset): What ran, as a scheduler's hook was asked about it: in place of `model`, `workload`,
            `layout` and `gpu`.
        pod (ImportPod | Unset): A pod of Kubernetes.
        model (InlineModel | str | Unset): The model that ran.
        workload (ServeRequest | TrainRequest | Unset): What ran.
        layout (LayoutRequest | Unset): How one job is spread over GPUs; their number is data x tensor x pipeline x
            context parallel.
        gpu (str | Unset): The GPU it ran on, where the file does not say it.
        match (ImportMatch | Unset): Readings taken here; every word that is given must hold.
        jobs (list[ImportJob] | Unset): Where several jobs are in one file: what each ran. The first that matches a
            reading has it.
        environment (ImportEnvironment | Unset): What the file does not say of the run, and you know.
        cluster (str | Unset): The stored cluster that it ran on: it corrects answers about that cluster first, and
            about such GPUs anywhere as without it. Default that of `question` or `pod`, where one was asked about.
    """

    content: str | Unset = UNSET
    content_base64: str | Unset = UNSET
    format_: Format | Unset = UNSET
    dry_run: bool | Unset = True
    question: str | Unset = UNSET
    pod: ImportPod | Unset = UNSET
    model: InlineModel | str | Unset = UNSET
    workload: ServeRequest | TrainRequest | Unset = UNSET
    layout: LayoutRequest | Unset = UNSET
    gpu: str | Unset = UNSET
    match: ImportMatch | Unset = UNSET
    jobs: list[ImportJob] | Unset = UNSET
    environment: ImportEnvironment | Unset = UNSET
    cluster: str | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        from ..models.inline_model import InlineModel  # noqa: PLC0415
        from ..models.train_request import TrainRequest  # noqa: PLC0415

        content = self.content

        content_base64 = self.content_base64

        format_: str | Unset = UNSET
        if not isinstance(self.format_, Unset):
            format_ = self.format_

        dry_run = self.dry_run

        question = self.question

        pod: dict[str, Any] | Unset = UNSET
        if not isinstance(self.pod, Unset):
            pod = self.pod.to_dict()

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

        match: dict[str, Any] | Unset = UNSET
        if not isinstance(self.match, Unset):
            match = self.match.to_dict()

        jobs: list[dict[str, Any]] | Unset = UNSET
        if not isinstance(self.jobs, Unset):
            jobs = []
            for jobs_item_data in self.jobs:
                jobs_item = jobs_item_data.to_dict()
                jobs.append(jobs_item)

        environment: dict[str, Any] | Unset = UNSET
        if not isinstance(self.environment, Unset):
            environment = self.environment.to_dict()

        cluster = self.cluster

        field_dict: dict[str, Any] = {}

        field_dict.update({})
        if content is not UNSET:
            field_dict["content"] = content
        if content_base64 is not UNSET:
            field_dict["content_base64"] = content_base64
        if format_ is not UNSET:
            field_dict["format"] = format_
        if dry_run is not UNSET:
            field_dict["dry_run"] = dry_run
        if question is not UNSET:
            field_dict["question"] = question
        if pod is not UNSET:
            field_dict["pod"] = pod
        if model is not UNSET:
            field_dict["model"] = model
        if workload is not UNSET:
            field_dict["workload"] = workload
        if layout is not UNSET:
            field_dict["layout"] = layout
        if gpu is not UNSET:
            field_dict["gpu"] = gpu
        if match is not UNSET:
            field_dict["match"] = match
        if jobs is not UNSET:
            field_dict["jobs"] = jobs
        if environment is not UNSET:
            field_dict["environment"] = environment
        if cluster is not UNSET:
            field_dict["cluster"] = cluster

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.import_environment import ImportEnvironment  # noqa: PLC0415
        from ..models.import_job import ImportJob  # noqa: PLC0415
        from ..models.import_match import ImportMatch  # noqa: PLC0415
        from ..models.import_pod import ImportPod  # noqa: PLC0415
        from ..models.inline_model import InlineModel  # noqa: PLC0415
        from ..models.layout_request import LayoutRequest  # noqa: PLC0415
        from ..models.serve_request import ServeRequest  # noqa: PLC0415
        from ..models.train_request import TrainRequest  # noqa: PLC0415

        d = dict(src_dict)
        content = d.pop("content", UNSET)

        content_base64 = d.pop("content_base64", UNSET)

        _format_ = d.pop("format", UNSET)
        format_: Format | Unset
        if isinstance(_format_, Unset):
            format_ = UNSET
        else:
            format_ = check_format(_format_)

        dry_run = d.pop("dry_run", UNSET)

        question = d.pop("question", UNSET)

        _pod = d.pop("pod", UNSET)
        pod: ImportPod | Unset
        if isinstance(_pod, Unset):
            pod = UNSET
        else:
            pod = ImportPod.from_dict(_pod)

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

        _match = d.pop("match", UNSET)
        match: ImportMatch | Unset
        if isinstance(_match, Unset):
            match = UNSET
        else:
            match = ImportMatch.from_dict(_match)

        _jobs = d.pop("jobs", UNSET)
        jobs: list[ImportJob] | Unset = UNSET
        if _jobs is not UNSET:
            jobs = []
            for jobs_item_data in _jobs:
                jobs_item = ImportJob.from_dict(jobs_item_data)

                jobs.append(jobs_item)

        _environment = d.pop("environment", UNSET)
        environment: ImportEnvironment | Unset
        if isinstance(_environment, Unset):
            environment = UNSET
        else:
            environment = ImportEnvironment.from_dict(_environment)

        cluster = d.pop("cluster", UNSET)

        import_request = cls(
            content=content,
            content_base64=content_base64,
            format_=format_,
            dry_run=dry_run,
            question=question,
            pod=pod,
            model=model,
            workload=workload,
            layout=layout,
            gpu=gpu,
            match=match,
            jobs=jobs,
            environment=environment,
            cluster=cluster,
        )

        return import_request
