from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define

from ..models.head import Head, check_head
from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.model_source_architecture import ModelSourceArchitecture
    from ..models.model_source_gguf import ModelSourceGguf
    from ..models.model_source_hf_config import ModelSourceHfConfig
    from ..models.model_source_recording import ModelSourceRecording
    from ..models.model_source_safetensors_header import ModelSourceSafetensorsHeader
    from ..models.model_source_safetensors_index import ModelSourceSafetensorsIndex


T = TypeVar("T", bound="ModelSource")


@_attrs_define
class ModelSource:
    """Where a model's structure comes from: exactly one of the first five; what its files hold, if that is to be checked;
    its head, where the config does not say the right one.

        Attributes:
            hf_config (ModelSourceHfConfig | Unset): A Hugging Face config.json.
            architecture (ModelSourceArchitecture | Unset): Our own spec, as GET shows it.
            gguf (ModelSourceGguf | Unset): Header of a GGUF file: `metadata` by key, without the arrays of the tokenizer,
                and `tensors`, each `{name, type, shape}` with the length of its rows first, as the file has them; of a split
                file the tensors of all parts. Its bytes are counted tensor by tensor.
            recording (ModelSourceRecording | Unset): A recording of transformers' own code, for a `model_type` without a
                module here: the document that `headroom models record` writes. Training in framework transformers is answered
                from it.
            hub (str | Unset): Id of a model on the Hugging Face hub or its mirror, which this server reads where its
                operator allows it. The header `Hub-Token` sends a token of the caller's.
            revision (str | Unset): Branch, tag or commit on the hub; default `main`.
            file (str | Unset): One of several GGUF files of a repository, the first part of a split one.
            safetensors_index (ModelSourceSafetensorsIndex | Unset): A model.safetensors.index.json: its total_size must be
                the tree's, or a warning says why not.
            safetensors_header (ModelSourceSafetensorsHeader | Unset): The JSON header of a single safetensors file, in
                place of an index: a warning names the tensors that differ from the tree.
            head (Head | Unset): Head of a model, as a request or its ``architectures`` says it.
            num_labels (int | Unset): Labels of a `head` that classifies; default the config's, else 2.
    """

    hf_config: ModelSourceHfConfig | Unset = UNSET
    architecture: ModelSourceArchitecture | Unset = UNSET
    gguf: ModelSourceGguf | Unset = UNSET
    recording: ModelSourceRecording | Unset = UNSET
    hub: str | Unset = UNSET
    revision: str | Unset = UNSET
    file: str | Unset = UNSET
    safetensors_index: ModelSourceSafetensorsIndex | Unset = UNSET
    safetensors_header: ModelSourceSafetensorsHeader | Unset = UNSET
    head: Head | Unset = UNSET
    num_labels: int | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        hf_config: dict[str, Any] | Unset = UNSET
        if not isinstance(self.hf_config, Unset):
            hf_config = self.hf_config.to_dict()

        architecture: dict[str, Any] | Unset = UNSET
        if not isinstance(self.architecture, Unset):
            architecture = self.architecture.to_dict()

        gguf: dict[str, Any] | Unset = UNSET
        if not isinstance(self.gguf, Unset):
            gguf = self.gguf.to_dict()

        recording: dict[str, Any] | Unset = UNSET
        if not isinstance(self.recording, Unset):
            recording = self.recording.to_dict()

        hub = self.hub

        revision = self.revision

        file = self.file

        safetensors_index: dict[str, Any] | Unset = UNSET
        if not isinstance(self.safetensors_index, Unset):
            safetensors_index = self.safetensors_index.to_dict()

        safetensors_header: dict[str, Any] | Unset = UNSET
        if not isinstance(self.safetensors_header, Unset):
            safetensors_header = self.safetensors_header.to_dict()

        head: str | Unset = UNSET
        if not isinstance(self.head, Unset):
            head = self.head

        num_labels = self.num_labels

        field_dict: dict[str, Any] = {}

        field_dict.update({})
        if hf_config is not UNSET:
            field_dict["hf_config"] = hf_config
        if architecture is not UNSET:
            field_dict["architecture"] = architecture
        if gguf is not UNSET:
            field_dict["gguf"] = gguf
        if recording is not UNSET:
            field_dict["recording"] = recording
        if hub is not UNSET:
            field_dict["hub"] = hub
        if revision is not UNSET:
            field_dict["revision"] = revision
        if file is not UNSET:
            field_dict["file"] = file
        if safetensors_index is not UNSET:
            field_dict["safetensors_index"] = safetensors_index
        if safetensors_header is not UNSET:
            field_dict["safetensors_header"] = safetensors_header
        if head is not UNSET:
            field_dict["head"] = head
        if num_labels is not UNSET:
            field_dict["num_labels"] = num_labels

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.model_source_architecture import ModelSourceArchitecture  # noqa: PLC0415
        from ..models.model_source_gguf import ModelSourceGguf  # noqa: PLC0415
        from ..models.model_source_hf_config import ModelSourceHfConfig  # noqa: PLC0415
        from ..models.model_source_recording import ModelSourceRecording  # noqa: PLC0415
        from ..models.model_source_safetensors_header import ModelSourceSafetensorsHeader  # noqa: PLC0415
        from ..models.model_source_safetensors_index import ModelSourceSafetensorsIndex  # noqa: PLC0415

        d = dict(src_dict)
        _hf_config = d.pop("hf_config", UNSET)
        hf_config: ModelSourceHfConfig | Unset
        if isinstance(_hf_config, Unset):
            hf_config = UNSET
        else:
            hf_config = ModelSourceHfConfig.from_dict(_hf_config)

        _architecture = d.pop("architecture", UNSET)
        architecture: ModelSourceArchitecture | Unset
        if isinstance(_architecture, Unset):
            architecture = UNSET
        else:
            architecture = ModelSourceArchitecture.from_dict(_architecture)

        _gguf = d.pop("gguf", UNSET)
        gguf: ModelSourceGguf | Unset
        if isinstance(_gguf, Unset):
            gguf = UNSET
        else:
            gguf = ModelSourceGguf.from_dict(_gguf)

        _recording = d.pop("recording", UNSET)
        recording: ModelSourceRecording | Unset
        if isinstance(_recording, Unset):
            recording = UNSET
        else:
            recording = ModelSourceRecording.from_dict(_recording)

        hub = d.pop("hub", UNSET)

        revision = d.pop("revision", UNSET)

        file = d.pop("file", UNSET)

        _safetensors_index = d.pop("safetensors_index", UNSET)
        safetensors_index: ModelSourceSafetensorsIndex | Unset
        if isinstance(_safetensors_index, Unset):
            safetensors_index = UNSET
        else:
            safetensors_index = ModelSourceSafetensorsIndex.from_dict(_safetensors_index)

        _safetensors_header = d.pop("safetensors_header", UNSET)
        safetensors_header: ModelSourceSafetensorsHeader | Unset
        if isinstance(_safetensors_header, Unset):
            safetensors_header = UNSET
        else:
            safetensors_header = ModelSourceSafetensorsHeader.from_dict(_safetensors_header)

        _head = d.pop("head", UNSET)
        head: Head | Unset
        if isinstance(_head, Unset):
            head = UNSET
        else:
            head = check_head(_head)

        num_labels = d.pop("num_labels", UNSET)

        model_source = cls(
            hf_config=hf_config,
            architecture=architecture,
            gguf=gguf,
            recording=recording,
            hub=hub,
            revision=revision,
            file=file,
            safetensors_index=safetensors_index,
            safetensors_header=safetensors_header,
            head=head,
            num_labels=num_labels,
        )

        return model_source
