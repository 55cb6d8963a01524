from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

T = TypeVar("T", bound="KeyAnswer")


@_attrs_define
class KeyAnswer:
    """A key without its secret.

    Attributes:
        id (str): Id of the key.
        name (str): Who or what holds it.
        prefix (str): How the key itself begins, by which its holder knows it.
        scopes (list[str]): What it may do: `read`, `plan`, `measure`, `admin`.
        state (str): `active`, `expired` or `revoked`.
        created_at (str): When it was made, RFC 3339, UTC.
        created_by (str): Who made it.
        expires_at (None | str): When it ends, RFC 3339, UTC; null where it lives until it is revoked.
        revoked_at (None | str): When it was revoked, RFC 3339, UTC; null where it was not.
        last_used_at (None | str): When it last asked, RFC 3339, UTC; null where it never has.
        rate (None | str): How often it may ask, as `600/minute`; null where the server's own limit holds.
        quota (None | str): How many measurements it may ask for; null where the server's own limit holds.
    """

    id: str
    name: str
    prefix: str
    scopes: list[str]
    state: str
    created_at: str
    created_by: str
    expires_at: None | str
    revoked_at: None | str
    last_used_at: None | str
    rate: None | str
    quota: None | str
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        id = self.id

        name = self.name

        prefix = self.prefix

        scopes = self.scopes

        state = self.state

        created_at = self.created_at

        created_by = self.created_by

        expires_at: None | str
        expires_at = self.expires_at

        revoked_at: None | str
        revoked_at = self.revoked_at

        last_used_at: None | str
        last_used_at = self.last_used_at

        rate: None | str
        rate = self.rate

        quota: None | str
        quota = self.quota

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "id": id,
                "name": name,
                "prefix": prefix,
                "scopes": scopes,
                "state": state,
                "created_at": created_at,
                "created_by": created_by,
                "expires_at": expires_at,
                "revoked_at": revoked_at,
                "last_used_at": last_used_at,
                "rate": rate,
                "quota": quota,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        id = d.pop("id")

        name = d.pop("name")

        prefix = d.pop("prefix")

        scopes = cast(list[str], d.pop("scopes"))

        state = d.pop("state")

        created_at = d.pop("created_at")

        created_by = d.pop("created_by")

        def _parse_expires_at(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        expires_at = _parse_expires_at(d.pop("expires_at"))

        def _parse_revoked_at(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        revoked_at = _parse_revoked_at(d.pop("revoked_at"))

        def _parse_last_used_at(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        last_used_at = _parse_last_used_at(d.pop("last_used_at"))

        def _parse_rate(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        rate = _parse_rate(d.pop("rate"))

        def _parse_quota(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        quota = _parse_quota(d.pop("quota"))

        key_answer = cls(
            id=id,
            name=name,
            prefix=prefix,
            scopes=scopes,
            state=state,
            created_at=created_at,
            created_by=created_by,
            expires_at=expires_at,
            revoked_at=revoked_at,
            last_used_at=last_used_at,
            rate=rate,
            quota=quota,
        )

        key_answer.additional_properties = d
        return key_answer

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
