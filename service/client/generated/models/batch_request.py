from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define

from ..models.batch_detail import BatchDetail, check_batch_detail
from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.fit_request import FitRequest


T = TypeVar("T", bound="BatchRequest")


@_attrs_define
class BatchRequest:
    """Fit questions that are answered in one call.

    Attributes:
        items (list[FitRequest]): Each as POST /v1/fit takes it.
        detail (BatchDetail | Unset): How much of each answer is worked out.
    """

    items: list[FitRequest]
    detail: BatchDetail | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        items = []
        for items_item_data in self.items:
            items_item = items_item_data.to_dict()
            items.append(items_item)

        detail: str | Unset = UNSET
        if not isinstance(self.detail, Unset):
            detail = self.detail

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "items": items,
            }
        )
        if detail is not UNSET:
            field_dict["detail"] = detail

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.fit_request import FitRequest  # noqa: PLC0415

        d = dict(src_dict)
        items = []
        _items = d.pop("items")
        for items_item_data in _items:
            items_item = FitRequest.from_dict(items_item_data)

            items.append(items_item)

        _detail = d.pop("detail", UNSET)
        detail: BatchDetail | Unset
        if isinstance(_detail, Unset):
            detail = UNSET
        else:
            detail = check_batch_detail(_detail)

        batch_request = cls(
            items=items,
            detail=detail,
        )

        return batch_request
