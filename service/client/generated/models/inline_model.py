from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define

from ..models.head import Head, check_head
from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.inline_model_architecture import InlineModelArchitecture
    from ..models.inline_model_hf_config import InlineModelHfConfig


T = TypeVar("T", bound="InlineModel")


@_attrs_define
class InlineModel:
    """A model that is not stored, or a named one with another head: exactly one of the first four, and its head where the
    config does not say the right one.

        Attributes:
            hf_config (InlineModelHfConfig | Unset): A Hugging Face config.json.
            architecture (InlineModelArchitecture | Unset): Our own spec, as GET /v1/models/{name} shows it.
            num_parameters (int | Unset): A number of parameters and nothing else.
            name (str | Unset): Stored or catalogue name, for a model with another `head`.
            head (Head | Unset): Head of a model, as a request or its ``architectures`` says it.
            num_labels (int | Unset): Labels of a `head` that classifies; default the config's, else 2.
    """

    hf_config: InlineModelHfConfig | Unset = UNSET
    architecture: InlineModelArchitecture | Unset = UNSET
    num_parameters: int | Unset = UNSET
    name: str | Unset = UNSET
    head: Head | Unset = UNSET
    num_labels: int | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        hf_config: dict[str, Any] | Unset = UNSET
        if not isinstance(self.hf_config, Unset):
            hf_config = self.hf_config.to_dict()

        architecture: dict[str, Any] | Unset = UNSET
        if not isinstance(self.architecture, Unset):
            architecture = self.architecture.to_dict()

        num_parameters = self.num_parameters

        name = self.name

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
        if num_parameters is not UNSET:
            field_dict["num_parameters"] = num_parameters
        if name is not UNSET:
            field_dict["name"] = name
        if head is not UNSET:
            field_dict["head"] = head
        if num_labels is not UNSET:
            field_dict["num_labels"] = num_labels

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.inline_model_architecture import InlineModelArchitecture  # noqa: PLC0415
        from ..models.inline_model_hf_config import InlineModelHfConfig  # noqa: PLC0415

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

        _head = d.pop("head", UNSET)
        head: Head | Unset
        if isinstance(_head, Unset):
            head = UNSET
        else:
            head = check_head(_head)

        num_labels = d.pop("num_labels", UNSET)

        inline_model = cls(
            hf_config=hf_config,
            architecture=architecture,
            num_parameters=num_parameters,
            name=name,
            head=head,
            num_labels=num_labels,
        )

        return inline_model
