from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define

from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.draft_model_architecture import DraftModelArchitecture
    from ..models.draft_model_gguf import DraftModelGguf
    from ..models.draft_model_hf_config import DraftModelHfConfig


T = TypeVar("T", bound="DraftModel")


@_attrs_define
class DraftModel:
    """A draft model that the catalogue lacks: exactly one of the first four.

    Attributes:
        hf_config (DraftModelHfConfig | Unset): A Hugging Face config.json.
        architecture (DraftModelArchitecture | Unset): Our own spec, as GET /v1/models/{name} shows it.
        gguf (DraftModelGguf | Unset): Header of a GGUF file: `metadata` by key, without the arrays of the tokenizer,
            and `tensors`, each `{name, type, shape}` with the length of its rows first, as the file has them; of a split
            file the tensors of all parts. Its bytes are counted tensor by tensor.
        hub (str | Unset): Id of a model on the Hugging Face hub or its mirror, which this server reads where its
            operator allows it. The header `Hub-Token` sends a token of the caller's.
        revision (str | Unset): Branch, tag or commit on the hub; default `main`.
        file (str | Unset): One of several GGUF files of a repository, the first part of a split one.
        origin (str | Unset): Where the sender read it, such as a file or a commit; told in the answer.
    """

    hf_config: DraftModelHfConfig | Unset = UNSET
    architecture: DraftModelArchitecture | Unset = UNSET
    gguf: DraftModelGguf | Unset = UNSET
    hub: str | Unset = UNSET
    revision: str | Unset = UNSET
    file: str | Unset = UNSET
    origin: str | Unset = UNSET

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

        hub = self.hub

        revision = self.revision

        file = self.file

        origin = self.origin

        field_dict: dict[str, Any] = {}

        field_dict.update({})
        if hf_config is not UNSET:
            field_dict["hf_config"] = hf_config
        if architecture is not UNSET:
            field_dict["architecture"] = architecture
        if gguf is not UNSET:
            field_dict["gguf"] = gguf
        if hub is not UNSET:
            field_dict["hub"] = hub
        if revision is not UNSET:
            field_dict["revision"] = revision
        if file is not UNSET:
            field_dict["file"] = file
        if origin is not UNSET:
            field_dict["origin"] = origin

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.draft_model_architecture import DraftModelArchitecture  # noqa: PLC0415
        from ..models.draft_model_gguf import DraftModelGguf  # noqa: PLC0415
        from ..models.draft_model_hf_config import DraftModelHfConfig  # noqa: PLC0415

        d = dict(src_dict)
        _hf_config = d.pop("hf_config", UNSET)
        hf_config: DraftModelHfConfig | Unset
        if isinstance(_hf_config, Unset):
            hf_config = UNSET
        else:
            hf_config = DraftModelHfConfig.from_dict(_hf_config)

        _architecture = d.pop("architecture", UNSET)
        architecture: DraftModelArchitecture | Unset
        if isinstance(_architecture, Unset):
            architecture = UNSET
        else:
            architecture = DraftModelArchitecture.from_dict(_architecture)

        _gguf = d.pop("gguf", UNSET)
        gguf: DraftModelGguf | Unset
        if isinstance(_gguf, Unset):
            gguf = UNSET
        else:
            gguf = DraftModelGguf.from_dict(_gguf)

        hub = d.pop("hub", UNSET)

        revision = d.pop("revision", UNSET)

        file = d.pop("file", UNSET)

        origin = d.pop("origin", UNSET)

        draft_model = cls(
            hf_config=hf_config,
            architecture=architecture,
            gguf=gguf,
            hub=hub,
            revision=revision,
            file=file,
            origin=origin,
        )

        return draft_model
