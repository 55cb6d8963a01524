from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define
from attrs import field as _attrs_field

if TYPE_CHECKING:
    from ..models.class_answer import ClassAnswer
    from ..models.shipped_answer import ShippedAnswer


T = TypeVar("T", bound="AccuracyAnswer")


@_attrs_define
class AccuracyAnswer:
    """How far answers were from what was measured here, and the intervals that are shipped.

    Attributes:
        level (float): Share that an interval should hold.
        classes (list[ClassAnswer]): Errors by kind of run, quantity and GPU.
        shipped (list[ShippedAnswer]): Intervals of answers before anything was measured here.
    """

    level: float
    classes: list[ClassAnswer]
    shipped: list[ShippedAnswer]
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        level = self.level

        classes = []
        for classes_item_data in self.classes:
            classes_item = classes_item_data.to_dict()
            classes.append(classes_item)

        shipped = []
        for shipped_item_data in self.shipped:
            shipped_item = shipped_item_data.to_dict()
            shipped.append(shipped_item)

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "level": level,
                "classes": classes,
                "shipped": shipped,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.class_answer import ClassAnswer  # noqa: PLC0415
        from ..models.shipped_answer import ShippedAnswer  # noqa: PLC0415

        d = dict(src_dict)
        level = d.pop("level")

        classes = []
        _classes = d.pop("classes")
        for classes_item_data in _classes:
            classes_item = ClassAnswer.from_dict(classes_item_data)

            classes.append(classes_item)

        shipped = []
        _shipped = d.pop("shipped")
        for shipped_item_data in _shipped:
            shipped_item = ShippedAnswer.from_dict(shipped_item_data)

            shipped.append(shipped_item)

        accuracy_answer = cls(
            level=level,
            classes=classes,
            shipped=shipped,
        )

        accuracy_answer.additional_properties = d
        return accuracy_answer

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
