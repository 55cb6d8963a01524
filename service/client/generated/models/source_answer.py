from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

T = TypeVar("T", bound="SourceAnswer")


@_attrs_define
class SourceAnswer:
    """A source, with its measurements of one cluster by state.

    Attributes:
        source (str): Name of the key, or of a token's subject.
        source_key (None | str): Id of the key or subject of the token; null where none was needed.
        cluster (None | str): The cluster that they are said to be of; null where none was named.
        num_pending (int): Waiting for an operator.
        num_held (int): Held apart, far from the answer: approved by their ids alone.
        num_approved (int): Approved: these teach.
        num_withdrawn (int): Withdrawn.
        newest_at (str): When the newest was handed in; RFC 3339.
    """

    source: str
    source_key: None | str
    cluster: None | str
    num_pending: int
    num_held: int
    num_approved: int
    num_withdrawn: int
    newest_at: str
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        source = self.source

        source_key: None | str
        source_key = self.source_key

        cluster: None | str
        cluster = self.cluster

        num_pending = self.num_pending

        num_held = self.num_held

        num_approved = self.num_approved

        num_withdrawn = self.num_withdrawn

        newest_at = self.newest_at

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "source": source,
                "source_key": source_key,
                "cluster": cluster,
                "num_pending": num_pending,
                "num_held": num_held,
                "num_approved": num_approved,
                "num_withdrawn": num_withdrawn,
                "newest_at": newest_at,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        source = d.pop("source")

        def _parse_source_key(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        source_key = _parse_source_key(d.pop("source_key"))

        def _parse_cluster(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        cluster = _parse_cluster(d.pop("cluster"))

        num_pending = d.pop("num_pending")

        num_held = d.pop("num_held")

        num_approved = d.pop("num_approved")

        num_withdrawn = d.pop("num_withdrawn")

        newest_at = d.pop("newest_at")

        source_answer = cls(
            source=source,
            source_key=source_key,
            cluster=cluster,
            num_pending=num_pending,
            num_held=num_held,
            num_approved=num_approved,
            num_withdrawn=num_withdrawn,
            newest_at=newest_at,
        )

        source_answer.additional_properties = d
        return source_answer

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
