from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define

if TYPE_CHECKING:
    from ..models.draft_model_hf_config import DraftModelHfConfig


T = TypeVar("T", bound="DraftModel")


@_attrs_define
class DraftModel:
    """A draft model that the catalogue lacks.

    Attributes:
        hf_config (DraftModelHfConfig): A Hugging Face config.json.
    """

    hf_config: DraftModelHfConfig

    def to_dict(self) -> dict[str, Any]:
        hf_config = self.hf_config.to_dict()

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "hf_config": hf_config,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.draft_model_hf_config import DraftModelHfConfig  # noqa: PLC0415

        d = dict(src_dict)
        hf_config = DraftModelHfConfig.from_dict(d.pop("hf_config"))

        draft_model = cls(
            hf_config=hf_config,
        )

        return draft_model
