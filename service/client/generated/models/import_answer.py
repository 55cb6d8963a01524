from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..models.format_ import Format, check_format

if TYPE_CHECKING:
    from ..models.import_item import ImportItem
    from ..models.left_out_answer import LeftOutAnswer


T = TypeVar("T", bound="ImportAnswer")


@_attrs_define
class ImportAnswer:
    """What a file holds, and what became of it.

    Attributes:
        dry_run (bool): Whether nothing was stored.
        format_ (Format): Format of a measured file.
        num_stored (int): Measurements that were stored now.
        items (list[ImportItem]): One for each job of the file.
        num_left_out (int): Parts of the file that became no reading.
        left_out (list[LeftOutAnswer]): The first hundred.
        notes (list[str]): What holds for the whole file.
    """

    dry_run: bool
    format_: Format
    num_stored: int
    items: list[ImportItem]
    num_left_out: int
    left_out: list[LeftOutAnswer]
    notes: list[str]
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        dry_run = self.dry_run

        format_: str = self.format_

        num_stored = self.num_stored

        items = []
        for items_item_data in self.items:
            items_item = items_item_data.to_dict()
            items.append(items_item)

        num_left_out = self.num_left_out

        left_out = []
        for left_out_item_data in self.left_out:
            left_out_item = left_out_item_data.to_dict()
            left_out.append(left_out_item)

        notes = self.notes

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "dry_run": dry_run,
                "format": format_,
                "num_stored": num_stored,
                "items": items,
                "num_left_out": num_left_out,
                "left_out": left_out,
                "notes": notes,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.import_item import ImportItem  # noqa: PLC0415
        from ..models.left_out_answer import LeftOutAnswer  # noqa: PLC0415

        d = dict(src_dict)
        dry_run = d.pop("dry_run")

        format_ = check_format(d.pop("format"))

        num_stored = d.pop("num_stored")

        items = []
        _items = d.pop("items")
        for items_item_data in _items:
            items_item = ImportItem.from_dict(items_item_data)

            items.append(items_item)

        num_left_out = d.pop("num_left_out")

        left_out = []
        _left_out = d.pop("left_out")
        for left_out_item_data in _left_out:
            left_out_item = LeftOutAnswer.from_dict(left_out_item_data)

            left_out.append(left_out_item)

        notes = cast(list[str], d.pop("notes"))

        import_answer = cls(
            dry_run=dry_run,
            format_=format_,
            num_stored=num_stored,
            items=items,
            num_left_out=num_left_out,
            left_out=left_out,
            notes=notes,
        )

        import_answer.additional_properties = d
        return import_answer

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
