from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

if TYPE_CHECKING:
    from ..models.reading_answer_place import ReadingAnswerPlace


T = TypeVar("T", bound="ReadingAnswer")


@_attrs_define
class ReadingAnswer:
    """One number of the file; the counter showed something from `low` to `high` (null: or more).

    Attributes:
        quantity (str): What was read: `allocated`, `reserved`, `device` and others.
        value (int): Bytes, or tokens of a pool.
        low (int): The least that the counter stood for, in bytes or tokens.
        high (int | None): The most that it stood for; null where it says only that it was this or more.
        sampled (bool): Seen now and then: the true peak may be higher.
        num_samples (int): Lines of the file that it is the highest of.
        place (ReadingAnswerPlace): Job, step, host, GPU, process and rank, as far as the file says.
        line (int | None): Line of the file, counted from 1; null in files without lines.
        since (None | str): When the first of them was read, as the file has it; null where it has no times.
        until (None | str): When the last of them was read; null where the file has no times.
    """

    quantity: str
    value: int
    low: int
    high: int | None
    sampled: bool
    num_samples: int
    place: ReadingAnswerPlace
    line: int | None
    since: None | str
    until: None | str
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        quantity = self.quantity

        value = self.value

        low = self.low

        high: int | None
        high = self.high

        sampled = self.sampled

        num_samples = self.num_samples

        place = self.place.to_dict()

        line: int | None
        line = self.line

        since: None | str
        since = self.since

        until: None | str
        until = self.until

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "quantity": quantity,
                "value": value,
                "low": low,
                "high": high,
                "sampled": sampled,
                "num_samples": num_samples,
                "place": place,
                "line": line,
                "since": since,
                "until": until,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.reading_answer_place import ReadingAnswerPlace  # noqa: PLC0415

        d = dict(src_dict)
        quantity = d.pop("quantity")

        value = d.pop("value")

        low = d.pop("low")

        def _parse_high(data: object) -> int | None:
            if data is None:
                return data
            return cast(int | None, data)

        high = _parse_high(d.pop("high"))

        sampled = d.pop("sampled")

        num_samples = d.pop("num_samples")

        place = ReadingAnswerPlace.from_dict(d.pop("place"))

        def _parse_line(data: object) -> int | None:
            if data is None:
                return data
            return cast(int | None, data)

        line = _parse_line(d.pop("line"))

        def _parse_since(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        since = _parse_since(d.pop("since"))

        def _parse_until(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        until = _parse_until(d.pop("until"))

        reading_answer = cls(
            quantity=quantity,
            value=value,
            low=low,
            high=high,
            sampled=sampled,
            num_samples=num_samples,
            place=place,
            line=line,
            since=since,
            until=until,
        )

        reading_answer.additional_properties = d
        return reading_answer

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
