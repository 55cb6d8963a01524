from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

T = TypeVar("T", bound="FormatAnswer")


@_attrs_define
class FormatAnswer:
    """A format, and what it can carry.

    Attributes:
        word (str): What questions call it by.
        title (str): The scheduler, and what is rendered for it.
        trains (bool): Whether it carries jobs that end.
        serves (bool): Whether it carries servers.
        spans_nodes (bool): Whether one replica may span nodes.
        takes_slices (bool): Whether it has words for MIG slices.
        vendors (list[str] | None): Vendors of the GPUs that it has words for; null where it has for all.
        options (list[str]): What of `format_options` it takes.
    """

    word: str
    title: str
    trains: bool
    serves: bool
    spans_nodes: bool
    takes_slices: bool
    vendors: list[str] | None
    options: list[str]
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        word = self.word

        title = self.title

        trains = self.trains

        serves = self.serves

        spans_nodes = self.spans_nodes

        takes_slices = self.takes_slices

        vendors: list[str] | None
        if isinstance(self.vendors, list):
            vendors = self.vendors

        else:
            vendors = self.vendors

        options = self.options

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "word": word,
                "title": title,
                "trains": trains,
                "serves": serves,
                "spans_nodes": spans_nodes,
                "takes_slices": takes_slices,
                "vendors": vendors,
                "options": options,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        word = d.pop("word")

        title = d.pop("title")

        trains = d.pop("trains")

        serves = d.pop("serves")

        spans_nodes = d.pop("spans_nodes")

        takes_slices = d.pop("takes_slices")

        def _parse_vendors(data: object) -> list[str] | None:
            if data is None:
                return data
            try:
                if not isinstance(data, list):
                    raise TypeError()
                vendors_type_0 = cast(list[str], data)

                return vendors_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(list[str] | None, data)

        vendors = _parse_vendors(d.pop("vendors"))

        options = cast(list[str], d.pop("options"))

        format_answer = cls(
            word=word,
            title=title,
            trains=trains,
            serves=serves,
            spans_nodes=spans_nodes,
            takes_slices=takes_slices,
            vendors=vendors,
            options=options,
        )

        format_answer.additional_properties = d
        return format_answer

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
