from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define
from attrs import field as _attrs_field

T = TypeVar("T", bound="ReadyAnswer")


@_attrs_define
class ReadyAnswer:
    """What this process needs, and whether it is there; without Redis only latency suffers.

    Attributes:
        status (str): `ready`, `degraded` (Redis is away) or `not_ready`.
        database (str): `ok`, `unreachable` or `not_migrated`.
        redis (str): `ok`, `unreachable` or `not_configured`.
    """

    status: str
    database: str
    redis: str
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        status = self.status

        database = self.database

        redis = self.redis

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "status": status,
                "database": database,
                "redis": redis,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        status = d.pop("status")

        database = d.pop("database")

        redis = d.pop("redis")

        ready_answer = cls(
            status=status,
            database=database,
            redis=redis,
        )

        ready_answer.additional_properties = d
        return ready_answer

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
