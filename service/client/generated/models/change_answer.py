from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

T = TypeVar("T", bound="ChangeAnswer")


@_attrs_define
class ChangeAnswer:
    """Who asked for which change, and how it was answered.

    Attributes:
        at (str): When it was asked for, RFC 3339, UTC.
        principal (str): Who asked: the name of a key, of a token's owner, or `local`.
        key_id (None | str): Id of the key; null where none was used.
        operation (str): Id of the operation, as this document has it.
        method (str): Method of the request.
        path (str): Path of the request.
        status (int): HTTP status that it was answered with.
        request_id (str): `X-Request-Id` of the answer, which the server's log has too.
        peer (None | str): Address that it came from; null where it is not known.
    """

    at: str
    principal: str
    key_id: None | str
    operation: str
    method: str
    path: str
    status: int
    request_id: str
    peer: None | str
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        at = self.at

        principal = self.principal

        key_id: None | str
        key_id = self.key_id

        operation = self.operation

        method = self.method

        path = self.path

        status = self.status

        request_id = self.request_id

        peer: None | str
        peer = self.peer

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "at": at,
                "principal": principal,
                "key_id": key_id,
                "operation": operation,
                "method": method,
                "path": path,
                "status": status,
                "request_id": request_id,
                "peer": peer,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        at = d.pop("at")

        principal = d.pop("principal")

        def _parse_key_id(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        key_id = _parse_key_id(d.pop("key_id"))

        operation = d.pop("operation")

        method = d.pop("method")

        path = d.pop("path")

        status = d.pop("status")

        request_id = d.pop("request_id")

        def _parse_peer(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        peer = _parse_peer(d.pop("peer"))

        change_answer = cls(
            at=at,
            principal=principal,
            key_id=key_id,
            operation=operation,
            method=method,
            path=path,
            status=status,
            request_id=request_id,
            peer=peer,
        )

        change_answer.additional_properties = d
        return change_answer

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
