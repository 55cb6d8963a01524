from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define
from attrs import field as _attrs_field

if TYPE_CHECKING:
    from ..models.batch_answer_items_item_type_1 import BatchAnswerItemsItemType1
    from ..models.fit_answer import FitAnswer


T = TypeVar("T", bound="BatchAnswer")


@_attrs_define
class BatchAnswer:
    """One answer per item, in order: a fit, or the problem that POST /v1/fit would have answered with.

    Attributes:
        items (list[BatchAnswerItemsItemType1 | FitAnswer]): One for each question, in their order: an answer of POST
            /v1/fit, or `problem`.
    """

    items: list[BatchAnswerItemsItemType1 | FitAnswer]
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        from ..models.fit_answer import FitAnswer  # noqa: PLC0415

        items = []
        for items_item_data in self.items:
            items_item: dict[str, Any]
            if isinstance(items_item_data, FitAnswer):
                items_item = items_item_data.to_dict()
            else:
                items_item = items_item_data.to_dict()

            items.append(items_item)

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "items": items,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.batch_answer_items_item_type_1 import BatchAnswerItemsItemType1  # noqa: PLC0415
        from ..models.fit_answer import FitAnswer  # noqa: PLC0415

        d = dict(src_dict)
        items = []
        _items = d.pop("items")
        for items_item_data in _items:

            def _parse_items_item(data: object) -> BatchAnswerItemsItemType1 | FitAnswer:
                try:
                    if not isinstance(data, dict):
                        raise TypeError()
                    items_item_type_0 = FitAnswer.from_dict(data)

                    return items_item_type_0
                except (TypeError, ValueError, AttributeError, KeyError):
                    pass
                if not isinstance(data, dict):
                    raise TypeError()
                items_item_type_1 = BatchAnswerItemsItemType1.from_dict(data)

                return items_item_type_1

            items_item = _parse_items_item(items_item_data)

            items.append(items_item)

        batch_answer = cls(
            items=items,
        )

        batch_answer.additional_properties = d
        return batch_answer

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
