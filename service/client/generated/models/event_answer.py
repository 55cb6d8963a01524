from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..models.event_answer_event import EventAnswerEvent, check_event_answer_event

T = TypeVar("T", bound="EventAnswer")


@_attrs_define
class EventAnswer:
    """One server-sent event.

    Attributes:
        id (str): For `Last-Event-ID`.
        event (EventAnswerEvent): What `data` is: the new status, the plan, the progress or one reading.
        data (str): A JSON object.
    """

    id: str
    event: EventAnswerEvent
    data: str
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        id = self.id

        event: str = self.event

        data = self.data

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "id": id,
                "event": event,
                "data": data,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        id = d.pop("id")

        event = check_event_answer_event(d.pop("event"))

        data = d.pop("data")

        event_answer = cls(
            id=id,
            event=event,
            data=data,
        )

        event_answer.additional_properties = d
        return event_answer

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
