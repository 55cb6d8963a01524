from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define

from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.inline_model_architecture import InlineModelArchitecture
    from ..models.inline_model_hf_config import InlineModelHfConfig


T = TypeVar("T", bound="InlineModel")


@_attrs_define
class InlineModel:
    """A model that is not stored: exactly one of the three.

    Attributes:
        hf_config (InlineModelHfConfig | Unset): A Hugging Face config.json.
        architecture (InlineModelArchitecture | Unset): Our own spec, as GET /v1/models/{name} shows it.
        num_parameters (int | Unset): A number of parameters and nothing else.
    """

    hf_config: InlineModelHfConfig | Unset = UNSET
    architecture: InlineModelArchitecture | Unset = UNSET
    num_parameters: int | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        hf_config: dict[str, Any] | Unset = UNSET
        if not isinstance(self.hf_config, Unset):
            hf_config = self.hf_config.to_dict()

        architecture: dict[str, Any] | Unset = UNSET
        if not isinstance(self.architecture, Unset):
            architecture = self.architecture.to_dict()

        num_parameters = self.num_parameters

        field_dict: dict[str, Any] = {}

        field_dict.update({})
        if hf_config is not UNSET:
            field_dict["hf_config"] = hf_config
        if architecture is not UNSET:
            field_dict["architecture"] = architecture
        if num_parameters is not UNSET:
            field_dict["num_parameters"] = num_parameters

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

        inline_model = cls(
            hf_config=hf_config,
            architecture=architecture,
            num_parameters=num_parameters,
        )

        return inline_model
