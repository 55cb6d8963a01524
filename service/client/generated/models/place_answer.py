from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

T = TypeVar("T", bound="PlaceAnswer")


@_attrs_define
class PlaceAnswer:
    """Where in the run it failed, in the words of POST /v1/fit.

    Attributes:
        instant (None | str): `load`, `forward`, `loss`, `backward`, `optimizer_step`, `prefill` or `decode`; null where
            it is none of them, as an engine's cache.
        terms (list[str]): Components that grow there, by their names in `per_gpu`.
        what (str): The place in words.
        file (None | str): File of the frame that says so; null where no traceback does.
        function (None | str): Its function; null with `file`.
    """

    instant: None | str
    terms: list[str]
    what: str
    file: None | str
    function: None | str
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        instant: None | str
        instant = self.instant

        terms = self.terms

        what = self.what

        file: None | str
        file = self.file

        function: None | str
        function = self.function

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "instant": instant,
                "terms": terms,
                "what": what,
                "file": file,
                "function": function,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)

        def _parse_instant(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        instant = _parse_instant(d.pop("instant"))

        terms = cast(list[str], d.pop("terms"))

        what = d.pop("what")

        def _parse_file(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        file = _parse_file(d.pop("file"))

        def _parse_function(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        function = _parse_function(d.pop("function"))

        place_answer = cls(
            instant=instant,
            terms=terms,
            what=what,
            file=file,
            function=function,
        )

        place_answer.additional_properties = d
        return place_answer

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
