from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define

from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.model_source import ModelSource


T = TypeVar("T", bound="ModelReplace")


@_attrs_define
class ModelReplace:
    """A new revision of a stored model.

    Attributes:
        source (ModelSource): Where a model's structure comes from: exactly one of the first five; what its files hold,
            if that is to be checked; its head, where the config does not say the right one.
        name (str | Unset): If given, the name in the path.
    """

    source: ModelSource
    name: str | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        source = self.source.to_dict()

        name = self.name

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "source": source,
            }
        )
        if name is not UNSET:
            field_dict["name"] = name

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.model_source import ModelSource  # noqa: PLC0415

        d = dict(src_dict)
        source = ModelSource.from_dict(d.pop("source"))

        name = d.pop("name", UNSET)

        model_replace = cls(
            source=source,
            name=name,
        )

        return model_replace
