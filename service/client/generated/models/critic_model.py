from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define

from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.critic_model_architecture import CriticModelArchitecture
    from ..models.critic_model_hf_config import CriticModelHfConfig


T = TypeVar("T", bound="CriticModel")


@_attrs_define
class CriticModel:
    """A critic's model that the catalogue lacks: exactly one of these.

    Attributes:
        hf_config (CriticModelHfConfig | Unset): A Hugging Face config.json.
        architecture (CriticModelArchitecture | Unset): Our own spec, as GET /v1/models/{name} shows it.
    """

    hf_config: CriticModelHfConfig | Unset = UNSET
    architecture: CriticModelArchitecture | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        hf_config: dict[str, Any] | Unset = UNSET
        if not isinstance(self.hf_config, Unset):
            hf_config = self.hf_config.to_dict()

        architecture: dict[str, Any] | Unset = UNSET
        if not isinstance(self.architecture, Unset):
            architecture = self.architecture.to_dict()

        field_dict: dict[str, Any] = {}

        field_dict.update({})
        if hf_config is not UNSET:
            field_dict["hf_config"] = hf_config
        if architecture is not UNSET:
            field_dict["architecture"] = architecture

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.critic_model_architecture import CriticModelArchitecture  # noqa: PLC0415
        from ..models.critic_model_hf_config import CriticModelHfConfig  # noqa: PLC0415

        d = dict(src_dict)
        _hf_config = d.pop("hf_config", UNSET)
        hf_config: CriticModelHfConfig | Unset
        if isinstance(_hf_config, Unset):
            hf_config = UNSET
        else:
            hf_config = CriticModelHfConfig.from_dict(_hf_config)

        _architecture = d.pop("architecture", UNSET)
        architecture: CriticModelArchitecture | Unset
        if isinstance(_architecture, Unset):
            architecture = UNSET
        else:
            architecture = CriticModelArchitecture.from_dict(_architecture)

        critic_model = cls(
            hf_config=hf_config,
            architecture=architecture,
        )

        return critic_model
