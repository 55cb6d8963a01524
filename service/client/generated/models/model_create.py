from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define

if TYPE_CHECKING:
    from ..models.model_source import ModelSource


T = TypeVar("T", bound="ModelCreate")


@_attrs_define
class ModelCreate:
    """A model to be stored.

    Attributes:
        name (str): Name to store it under; no name of the catalogue.
        source (ModelSource): Where a model's structure comes from: exactly one of the first five; what its files hold,
            if that is to be checked; its head, where the config does not say the right one.
    """

    name: str
    source: ModelSource

    def to_dict(self) -> dict[str, Any]:
        name = self.name

        source = self.source.to_dict()

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "name": name,
                "source": source,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.model_source import ModelSource  # noqa: PLC0415

        d = dict(src_dict)
        name = d.pop("name")

        source = ModelSource.from_dict(d.pop("source"))

        model_create = cls(
            name=name,
            source=source,
        )

        return model_create
