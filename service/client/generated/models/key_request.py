from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define

from ..models.scope import Scope, check_scope
from ..types import UNSET, Unset

T = TypeVar("T", bound="KeyRequest")


@_attrs_define
class KeyRequest:
    """A key to make.

    Attributes:
        name (str): Who or what holds the key; several keys may share a name, and none is named like one who has no key:
            `local`, `anybody`, `nobody`, `command line`, `oidc:…`.
        scopes (list[Scope]): `admin` may do all; `plan` and `measure` may also read.
        expires_in_s (int | Unset): Seconds until it ends; without it the key lives until it is revoked.
        rate (str | Unset): How often it may ask.
        quota (str | Unset): How many measurements it may ask for.
    """

    name: str
    scopes: list[Scope]
    expires_in_s: int | Unset = UNSET
    rate: str | Unset = UNSET
    quota: str | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        name = self.name

        scopes = []
        for scopes_item_data in self.scopes:
            scopes_item: str = scopes_item_data
            scopes.append(scopes_item)

        expires_in_s = self.expires_in_s

        rate = self.rate

        quota = self.quota

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "name": name,
                "scopes": scopes,
            }
        )
        if expires_in_s is not UNSET:
            field_dict["expires_in_s"] = expires_in_s
        if rate is not UNSET:
            field_dict["rate"] = rate
        if quota is not UNSET:
            field_dict["quota"] = quota

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        name = d.pop("name")

        scopes = []
        _scopes = d.pop("scopes")
        for scopes_item_data in _scopes:
            scopes_item = check_scope(scopes_item_data)

            scopes.append(scopes_item)

        expires_in_s = d.pop("expires_in_s", UNSET)

        rate = d.pop("rate", UNSET)

        quota = d.pop("quota", UNSET)

        key_request = cls(
            name=name,
            scopes=scopes,
            expires_in_s=expires_in_s,
            rate=rate,
            quota=quota,
        )

        return key_request
