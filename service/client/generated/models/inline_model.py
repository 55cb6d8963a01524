from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define

from ..models.head import Head, check_head
from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.inline_model_architecture import InlineModelArchitecture
    from ..models.inline_model_gguf import InlineModelGguf
    from ..models.inline_model_hf_config import InlineModelHfConfig
    from ..models.inline_model_recording import InlineModelRecording
    from ..models.inline_model_safetensors_header import InlineModelSafetensorsHeader
    from ..models.inline_model_safetensors_index import InlineModelSafetensorsIndex


T = TypeVar("T", bound="InlineModel")


@_attrs_define
class InlineModel:
    """A model that is not stored, or a named one with another head: one of the first seven, its head where the config does
    not say it, and what its files hold.

        Attributes:
            hf_config (InlineModelHfConfig | Unset): A Hugging Face config.json.
            architecture (InlineModelArchitecture | Unset): Our own spec, as GET /v1/models/{name} shows it.
            num_parameters (int | Unset): A number of parameters and nothing else.
            name (str | Unset): Stored or catalogue name, for a model with another `head`.
            gguf (InlineModelGguf | Unset): Header of a GGUF file: `metadata` by key, without the arrays of the tokenizer,
                and `tensors`, each `{name, type, shape}` with the length of its rows first, as the file has them; of a split
                file the tensors of all parts. Its bytes are counted tensor by tensor.
            recording (InlineModelRecording | Unset): A recording of transformers' own code, for a `model_type` without a
                module here: the document that `headroom models record` writes. Training in framework transformers is answered
                from it.
            hub (str | Unset): Id of a model on the Hugging Face hub or its mirror, which this server reads where its
                operator allows it. The header `Hub-Token` sends a token of the caller's.
            revision (str | Unset): Branch, tag or commit on the hub; default `main`.
            file (str | Unset): One of several GGUF files of a repository, the first part of a split one.
            head (Head | Unset): Head of a model, as a request or its ``architectures`` says it.
            num_labels (int | Unset): Labels of a `head` that classifies; default the config's, else 2.
            safetensors_index (InlineModelSafetensorsIndex | Unset): A model.safetensors.index.json: its total_size must be
                the tree's, or a warning says why not.
            safetensors_header (InlineModelSafetensorsHeader | Unset): The JSON header of a single safetensors file, in
                place of an index: a warning names the tensors that differ from the tree.
            origin (str | Unset): Where the sender read it, such as a file or a commit; told in the answer.
    """

    hf_config: InlineModelHfConfig | Unset = UNSET
    architecture: InlineModelArchitecture | Unset = UNSET
    num_parameters: int | Unset = UNSET
    name: str | Unset = UNSET
    gguf: InlineModelGguf | Unset = UNSET
    recording: InlineModelRecording | Unset = UNSET
    hub: str | Unset = UNSET
    revision: str | Unset = UNSET
    file: str | Unset = UNSET
    head: Head | Unset = UNSET
    num_labels: int | Unset = UNSET
    safetensors_index: InlineModelSafetensorsIndex | Unset = UNSET
    safetensors_header: InlineModelSafetensorsHeader | Unset = UNSET
    origin: str | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        hf_config: dict[str, Any] | Unset = UNSET
        if not isinstance(self.hf_config, Unset):
            hf_config = self.hf_config.to_dict()

        architecture: dict[str, Any] | Unset = UNSET
        if not isinstance(self.architecture, Unset):
            architecture = self.architecture.to_dict()

        num_parameters = self.num_parameters

        name = self.name

        gguf: dict[str, Any] | Unset = UNSET
        if not isinstance(self.gguf, Unset):
            gguf = self.gguf.to_dict()

        recording: dict[str, Any] | Unset = UNSET
        if not isinstance(self.recording, Unset):
            recording = self.recording.to_dict()

        hub = self.hub

        revision = self.revision

        file = self.file

        head: str | Unset = UNSET
        if not isinstance(self.head, Unset):
            head = self.head

        num_labels = self.num_labels

        safetensors_index: dict[str, Any] | Unset = UNSET
        if not isinstance(self.safetensors_index, Unset):
            safetensors_index = self.safetensors_index.to_dict()

        safetensors_header: dict[str, Any] | Unset = UNSET
        if not isinstance(self.safetensors_header, Unset):
            safetensors_header = self.safetensors_header.to_dict()

        origin = self.origin

        field_dict: dict[str, Any] = {}

        field_dict.update({})
        if hf_config is not UNSET:
            field_dict["hf_config"] = hf_config
        if architecture is not UNSET:
            field_dict["architecture"] = architecture
        if num_parameters is not UNSET:
            field_dict["num_parameters"] = num_parameters
        if name is not UNSET:
            field_dict["name"] = name
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
        if head is not UNSET:
            field_dict["head"] = head
        if num_labels is not UNSET:
            field_dict["num_labels"] = num_labels
        if safetensors_index is not UNSET:
            field_dict["safetensors_index"] = safetensors_index
        if safetensors_header is not UNSET:
            field_dict["safetensors_header"] = safetensors_header
        if origin is not UNSET:
            field_dict["origin"] = origin

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.inline_model_architecture import InlineModelArchitecture  # noqa: PLC0415
        from ..models.inline_model_gguf import InlineModelGguf  # noqa: PLC0415
        from ..models.inline_model_hf_config import InlineModelHfConfig  # noqa: PLC0415
        from ..models.inline_model_recording import InlineModelRecording  # noqa: PLC0415
        from ..models.inline_model_safetensors_header import InlineModelSafetensorsHeader  # noqa: PLC0415
        from ..models.inline_model_safetensors_index import InlineModelSafetensorsIndex  # noqa: PLC0415

        d = dict(src_dict)
        _hf_config = d.pop("hf_config", UNSET)
        hf_config: InlineModelHfConfig | Unset
        if isinstance(_hf_config, Unset):
            hf_config = UNSET
        else:
            hf_config = InlineModelHfConfig.from_dict(_hf_config)

        _architecture = d.pop("architecture", UNSET)
        architecture: InlineModelArchitecture | Unset
        if isinstance(_architecture, Unset):
            architecture = UNSET
        else:
            architecture = InlineModelArchitecture.from_dict(_architecture)

        num_parameters = d.pop("num_parameters", UNSET)

        name = d.pop("name", UNSET)

        _gguf = d.pop("gguf", UNSET)
        gguf: InlineModelGguf | Unset
        if isinstance(_gguf, Unset):
            gguf = UNSET
        else:
            gguf = InlineModelGguf.from_dict(_gguf)

        _recording = d.pop("recording", UNSET)
        recording: InlineModelRecording | Unset
        if isinstance(_recording, Unset):
            recording = UNSET
        else:
            recording = InlineModelRecording.from_dict(_recording)

        hub = d.pop("hub", UNSET)

        revision = d.pop("revision", UNSET)

        file = d.pop("file", UNSET)

        _head = d.pop("head", UNSET)
        head: Head | Unset
        if isinstance(_head, Unset):
            head = UNSET
        else:
            head = check_head(_head)

        num_labels = d.pop("num_labels", UNSET)

        _safetensors_index = d.pop("safetensors_index", UNSET)
        safetensors_index: InlineModelSafetensorsIndex | Unset
        if isinstance(_safetensors_index, Unset):
            safetensors_index = UNSET
        else:
            safetensors_index = InlineModelSafetensorsIndex.from_dict(_safetensors_index)

        _safetensors_header = d.pop("safetensors_header", UNSET)
        safetensors_header: InlineModelSafetensorsHeader | Unset
        if isinstance(_safetensors_header, Unset):
            safetensors_header = UNSET
        else:
            safetensors_header = InlineModelSafetensorsHeader.from_dict(_safetensors_header)

        origin = d.pop("origin", UNSET)

        inline_model = cls(
            hf_config=hf_config,
            architecture=architecture,
            num_parameters=num_parameters,
            name=name,
            gguf=gguf,
            recording=recording,
            hub=hub,
            revision=revision,
            file=file,
            head=head,
            num_labels=num_labels,
            safetensors_index=safetensors_index,
            safetensors_header=safetensors_header,
            origin=origin,
        )

        return inline_model
