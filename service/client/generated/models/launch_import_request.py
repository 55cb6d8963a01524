from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define

from ..models.launcher import Launcher, check_launcher
from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.gpu_by_memory import GpuByMemory
    from ..models.inline_model import InlineModel
    from ..models.launch_file_request import LaunchFileRequest
    from ..models.launch_import_request_arguments import LaunchImportRequestArguments
    from ..models.launch_import_request_workload import LaunchImportRequestWorkload
    from ..models.layout_request import LayoutRequest


T = TypeVar("T", bound="LaunchImportRequest")


@_attrs_define
class LaunchImportRequest:
    """A launch: files, a command or keyword arguments, and what they do not say.

    Attributes:
        launcher (Launcher | None | Unset): Whose words these are; null, the default, is found out.
        files (list[LaunchFileRequest] | Unset): Files of YAML, JSON, Python (read, never run) or a shell.
        command (list[str] | str | Unset): What is typed to start it, as a text or as words.
        arguments (LaunchImportRequestArguments | Unset): Keyword arguments as a script gives them: `TrainingArguments`,
            `SFTConfig` or those of `generate()`, with `LoraConfig`'s under `peft` and `from_pretrained`'s under
            `model_kwargs`.
        model (InlineModel | str | Unset): The model, in place of the name that the launch has for it.
        gpu (GpuByMemory | str | Unset): The GPU it runs on.
        layout (LayoutRequest | Unset): How one job is spread over GPUs; their number is data x tensor x pipeline x
            context parallel.
        workload (LaunchImportRequestWorkload | Unset): Fields of the workload that the launch leaves open or to a
            default, such as `sequence_length`; one that says otherwise than the launch is refused.
    """

    launcher: Launcher | None | Unset = UNSET
    files: list[LaunchFileRequest] | Unset = UNSET
    command: list[str] | str | Unset = UNSET
    arguments: LaunchImportRequestArguments | Unset = UNSET
    model: InlineModel | str | Unset = UNSET
    gpu: GpuByMemory | str | Unset = UNSET
    layout: LayoutRequest | Unset = UNSET
    workload: LaunchImportRequestWorkload | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        from ..models.gpu_by_memory import GpuByMemory  # noqa: PLC0415
        from ..models.inline_model import InlineModel  # noqa: PLC0415

        launcher: None | str | Unset
        if isinstance(self.launcher, Unset):
            launcher = UNSET
        elif isinstance(self.launcher, str):
            launcher = self.launcher
        else:
            launcher = self.launcher

        files: list[dict[str, Any]] | Unset = UNSET
        if not isinstance(self.files, Unset):
            files = []
            for files_item_data in self.files:
                files_item = files_item_data.to_dict()
                files.append(files_item)

        command: list[str] | str | Unset
        if isinstance(self.command, Unset):
            command = UNSET
        elif isinstance(self.command, list):
            command = self.command

        else:
            command = self.command

        arguments: dict[str, Any] | Unset = UNSET
        if not isinstance(self.arguments, Unset):
            arguments = self.arguments.to_dict()

        model: dict[str, Any] | str | Unset
        if isinstance(self.model, Unset):
            model = UNSET
        elif isinstance(self.model, InlineModel):
            model = self.model.to_dict()
        else:
            model = self.model

        gpu: dict[str, Any] | str | Unset
        if isinstance(self.gpu, Unset):
            gpu = UNSET
        elif isinstance(self.gpu, GpuByMemory):
            gpu = self.gpu.to_dict()
        else:
            gpu = self.gpu

        layout: dict[str, Any] | Unset = UNSET
        if not isinstance(self.layout, Unset):
            layout = self.layout.to_dict()

        workload: dict[str, Any] | Unset = UNSET
        if not isinstance(self.workload, Unset):
            workload = self.workload.to_dict()

        field_dict: dict[str, Any] = {}

        field_dict.update({})
        if launcher is not UNSET:
            field_dict["launcher"] = launcher
        if files is not UNSET:
            field_dict["files"] = files
        if command is not UNSET:
            field_dict["command"] = command
        if arguments is not UNSET:
            field_dict["arguments"] = arguments
        if model is not UNSET:
            field_dict["model"] = model
        if gpu is not UNSET:
            field_dict["gpu"] = gpu
        if layout is not UNSET:
            field_dict["layout"] = layout
        if workload is not UNSET:
            field_dict["workload"] = workload

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.gpu_by_memory import GpuByMemory  # noqa: PLC0415
        from ..models.inline_model import InlineModel  # noqa: PLC0415
        from ..models.launch_file_request import LaunchFileRequest  # noqa: PLC0415
        from ..models.launch_import_request_arguments import LaunchImportRequestArguments  # noqa: PLC0415
        from ..models.launch_import_request_workload import LaunchImportRequestWorkload  # noqa: PLC0415
        from ..models.layout_request import LayoutRequest  # noqa: PLC0415

        d = dict(src_dict)

        def _parse_launcher(data: object) -> Launcher | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, str):
                    raise TypeError()
                launcher_type_0 = check_launcher(data)

                return launcher_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(Launcher | None | Unset, data)

        launcher = _parse_launcher(d.pop("launcher", UNSET))

        _files = d.pop("files", UNSET)
        files: list[LaunchFileRequest] | Unset = UNSET
        if _files is not UNSET:
            files = []
            for files_item_data in _files:
                files_item = LaunchFileRequest.from_dict(files_item_data)

                files.append(files_item)

        def _parse_command(data: object) -> list[str] | str | Unset:
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, list):
                    raise TypeError()
                command_type_1 = cast(list[str], data)

                return command_type_1
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(list[str] | str | Unset, data)

        command = _parse_command(d.pop("command", UNSET))

        _arguments = d.pop("arguments", UNSET)
        arguments: LaunchImportRequestArguments | Unset
        if isinstance(_arguments, Unset):
            arguments = UNSET
        else:
            arguments = LaunchImportRequestArguments.from_dict(_arguments)

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

        def _parse_gpu(data: object) -> GpuByMemory | str | Unset:
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                gpu_type_1 = GpuByMemory.from_dict(data)

                return gpu_type_1
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(GpuByMemory | str | Unset, data)

        gpu = _parse_gpu(d.pop("gpu", UNSET))

        _layout = d.pop("layout", UNSET)
        layout: LayoutRequest | Unset
        if isinstance(_layout, Unset):
            layout = UNSET
        else:
            layout = LayoutRequest.from_dict(_layout)

        _workload = d.pop("workload", UNSET)
        workload: LaunchImportRequestWorkload | Unset
        if isinstance(_workload, Unset):
            workload = UNSET
        else:
            workload = LaunchImportRequestWorkload.from_dict(_workload)

        launch_import_request = cls(
            launcher=launcher,
            files=files,
            command=command,
            arguments=arguments,
            model=model,
            gpu=gpu,
            layout=layout,
            workload=workload,
        )

        return launch_import_request
