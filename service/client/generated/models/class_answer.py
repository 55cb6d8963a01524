from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

if TYPE_CHECKING:
    from ..models.error_answer import ErrorAnswer


T = TypeVar("T", bound="ClassAnswer")


@_attrs_define
class ClassAnswer:
    """One kind of run and quantity on one GPU.

    Attributes:
        kind (str): The kind of run.
        quantity (str): What was measured.
        gpu (None | str): What measured; null where it was no GPU, or an unknown one.
        count (int): Measurements of it.
        before (ErrorAnswer): Relative errors: answer / measured - 1.
        after (ErrorAnswer): Relative errors: answer / measured - 1.
    """

    kind: str
    quantity: str
    gpu: None | str
    count: int
    before: ErrorAnswer
    after: ErrorAnswer
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        kind = self.kind

        quantity = self.quantity

        gpu: None | str
        gpu = self.gpu

        count = self.count

        before = self.before.to_dict()

        after = self.after.to_dict()

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "kind": kind,
                "quantity": quantity,
                "gpu": gpu,
                "count": count,
                "before": before,
                "after": after,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.error_answer import ErrorAnswer  # noqa: PLC0415

        d = dict(src_dict)
        kind = d.pop("kind")

        quantity = d.pop("quantity")

        def _parse_gpu(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        gpu = _parse_gpu(d.pop("gpu"))

        count = d.pop("count")

        before = ErrorAnswer.from_dict(d.pop("before"))

        after = ErrorAnswer.from_dict(d.pop("after"))

        class_answer = cls(
            kind=kind,
            quantity=quantity,
            gpu=gpu,
            count=count,
            before=before,
            after=after,
        )

        class_answer.additional_properties = d
        return class_answer

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
