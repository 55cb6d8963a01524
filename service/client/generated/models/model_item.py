from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..types import UNSET, Unset

T = TypeVar("T", bound="ModelItem")


@_attrs_define
class ModelItem:
    """One model in a list.

    Attributes:
        name (str): Name of the model.
        revision (int): Number of its newest revision.
        origin (str): `stored` or `catalogue`.
        family (None | str): Null where this version knows no such family.
        created_at (None | str): When that revision was stored, RFC 3339, UTC; null for the catalogue.
        supported (bool): Whether questions about it can be answered.
        aliases (list[str] | Unset): Other names of the catalogue's model.
        state (str | Unset): `ready`, `recording` or `refused`, as of the model itself. Default: 'ready'.
    """

    name: str
    revision: int
    origin: str
    family: None | str
    created_at: None | str
    supported: bool
    aliases: list[str] | Unset = UNSET
    state: str | Unset = "ready"
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        name = self.name

        revision = self.revision

        origin = self.origin

        family: None | str
        family = self.family

        created_at: None | str
        created_at = self.created_at

        supported = self.supported

        aliases: list[str] | Unset = UNSET
        if not isinstance(self.aliases, Unset):
            aliases = self.aliases

        state = self.state

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "name": name,
                "revision": revision,
                "origin": origin,
                "family": family,
                "created_at": created_at,
                "supported": supported,
            }
        )
        if aliases is not UNSET:
            field_dict["aliases"] = aliases
        if state is not UNSET:
            field_dict["state"] = state

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        name = d.pop("name")

        revision = d.pop("revision")

        origin = d.pop("origin")

        def _parse_family(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        family = _parse_family(d.pop("family"))

        def _parse_created_at(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        created_at = _parse_created_at(d.pop("created_at"))

        supported = d.pop("supported")

        aliases = cast(list[str], d.pop("aliases", UNSET))

        state = d.pop("state", UNSET)

        model_item = cls(
            name=name,
            revision=revision,
            origin=origin,
            family=family,
            created_at=created_at,
            supported=supported,
            aliases=aliases,
            state=state,
        )

        model_item.additional_properties = d
        return model_item

    @property
    def additional_keys(self) -> list[str]:
        return list(self.additional_properties.keys())

    def __getitem__(self, key: str) -> Any:
        return self.additional_properties[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self.additional_properties[key] = value

    def __delitem__(self, key: str) -> None:
        del self.additional_properties[key]

    def __contains__(self, key: str) -> bool:
        return key in self.additional_properties
