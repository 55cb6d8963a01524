from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define

from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.kueue_request_objects_item import KueueRequestObjectsItem


T = TypeVar("T", bound="KueueRequest")


@_attrs_define
class KueueRequest:
    """A job that Kueue holds.

    Attributes:
        objects (list[KueueRequestObjectsItem]): The job as an object of Kubernetes; of one that may get several kinds
            of GPUs once for each, the preferred first.
        is_placed (bool | Unset): Whether the job runs on the GPUs that its node selectors name, also where its question
            names another. Default: False.
        fails_closed (bool | Unset): Whether it is refused where nothing can be said, also by a server that is open.
            Default: False.
        is_last (bool | Unset): Whether it is decided now, by what is known: whoever asks does not ask again. Default:
            False.
    """

    objects: list[KueueRequestObjectsItem]
    is_placed: bool | Unset = False
    fails_closed: bool | Unset = False
    is_last: bool | Unset = False

    def to_dict(self) -> dict[str, Any]:
        objects = []
        for objects_item_data in self.objects:
            objects_item = objects_item_data.to_dict()
            objects.append(objects_item)

        is_placed = self.is_placed

        fails_closed = self.fails_closed

        is_last = self.is_last

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "objects": objects,
            }
        )
        if is_placed is not UNSET:
            field_dict["is_placed"] = is_placed
        if fails_closed is not UNSET:
            field_dict["fails_closed"] = fails_closed
        if is_last is not UNSET:
            field_dict["is_last"] = is_last

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.kueue_request_objects_item import KueueRequestObjectsItem  # noqa: PLC0415

        d = dict(src_dict)
        objects = []
        _objects = d.pop("objects")
        for objects_item_data in _objects:
            objects_item = KueueRequestObjectsItem.from_dict(objects_item_data)

            objects.append(objects_item)

        is_placed = d.pop("is_placed", UNSET)

        fails_closed = d.pop("fails_closed", UNSET)

        is_last = d.pop("is_last", UNSET)

        kueue_request = cls(
            objects=objects,
            is_placed=is_placed,
            fails_closed=fails_closed,
            is_last=is_last,
        )

        return kueue_request
