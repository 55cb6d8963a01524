from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define

from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.inline_pipeline_configs import InlinePipelineConfigs
    from ..models.inline_pipeline_model_index import InlinePipelineModelIndex
    from ..models.inline_pipeline_recording import InlinePipelineRecording


T = TypeVar("T", bound="InlinePipeline")


@_attrs_define
class InlinePipeline:
    """A pipeline that is not named: its own files, or a recording of it.

    Attributes:
        model_index (InlinePipelineModelIndex | Unset): The `model_index.json` of a pipeline of diffusers; with
            `configs`.
        configs (InlinePipelineConfigs | Unset): The `config.json` of each component, by its name in `model_index.json`.
        recording (InlinePipelineRecording | Unset): The document that `headroom pipelines record` writes.
    """

    model_index: InlinePipelineModelIndex | Unset = UNSET
    configs: InlinePipelineConfigs | Unset = UNSET
    recording: InlinePipelineRecording | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        model_index: dict[str, Any] | Unset = UNSET
        if not isinstance(self.model_index, Unset):
            model_index = self.model_index.to_dict()

        configs: dict[str, Any] | Unset = UNSET
        if not isinstance(self.configs, Unset):
            configs = self.configs.to_dict()

        recording: dict[str, Any] | Unset = UNSET
        if not isinstance(self.recording, Unset):
            recording = self.recording.to_dict()

        field_dict: dict[str, Any] = {}

        field_dict.update({})
        if model_index is not UNSET:
            field_dict["model_index"] = model_index
        if configs is not UNSET:
            field_dict["configs"] = configs
        if recording is not UNSET:
            field_dict["recording"] = recording

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.inline_pipeline_configs import InlinePipelineConfigs  # noqa: PLC0415
        from ..models.inline_pipeline_model_index import InlinePipelineModelIndex  # noqa: PLC0415
        from ..models.inline_pipeline_recording import InlinePipelineRecording  # noqa: PLC0415

        d = dict(src_dict)
        _model_index = d.pop("model_index", UNSET)
        model_index: InlinePipelineModelIndex | Unset
        if isinstance(_model_index, Unset):
            model_index = UNSET
        else:
            model_index = InlinePipelineModelIndex.from_dict(_model_index)

        _configs = d.pop("configs", UNSET)
        configs: InlinePipelineConfigs | Unset
        if isinstance(_configs, Unset):
            configs = UNSET
        else:
            configs = InlinePipelineConfigs.from_dict(_configs)

        _recording = d.pop("recording", UNSET)
        recording: InlinePipelineRecording | Unset
        if isinstance(_recording, Unset):
            recording = UNSET
        else:
            recording = InlinePipelineRecording.from_dict(_recording)

        inline_pipeline = cls(
            model_index=model_index,
            configs=configs,
            recording=recording,
        )

        return inline_pipeline
