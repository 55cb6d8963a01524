from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define

from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.placement_request import PlacementRequest
    from ..models.share_request import ShareRequest


T = TypeVar("T", bound="ReservationRequest")


@_attrs_define
class ReservationRequest:
    """What to promise to whom, and until when: exactly one of `gpus` and `placement`, and one of the two ends.

    Attributes:
        holder (str): Who holds it: a team, a job, a person.
        gpus (list[ShareRequest] | Unset): GPUs by pool and node.
        placement (PlacementRequest | Unset): The `placement` of a plan's candidate, as it was sent.
        expires_in_s (int | Unset): Seconds from now until it ends.
        expires_at (datetime.datetime | Unset): RFC 3339: when it ends.
    """

    holder: str
    gpus: list[ShareRequest] | Unset = UNSET
    placement: PlacementRequest | Unset = UNSET
    expires_in_s: int | Unset = UNSET
    expires_at: datetime.datetime | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        holder = self.holder

        gpus: list[dict[str, Any]] | Unset = UNSET
        if not isinstance(self.gpus, Unset):
            gpus = []
            for gpus_item_data in self.gpus:
                gpus_item = gpus_item_data.to_dict()
                gpus.append(gpus_item)

        placement: dict[str, Any] | Unset = UNSET
        if not isinstance(self.placement, Unset):
            placement = self.placement.to_dict()

        expires_in_s = self.expires_in_s

        expires_at: str | Unset = UNSET
        if not isinstance(self.expires_at, Unset):
            expires_at = self.expires_at.isoformat()

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "holder": holder,
            }
        )
        if gpus is not UNSET:
            field_dict["gpus"] = gpus
        if placement is not UNSET:
            field_dict["placement"] = placement
        if expires_in_s is not UNSET:
            field_dict["expires_in_s"] = expires_in_s
        if expires_at is not UNSET:
            field_dict["expires_at"] = expires_at

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.placement_request import PlacementRequest  # noqa: PLC0415
        from ..models.share_request import ShareRequest  # noqa: PLC0415

        d = dict(src_dict)
        holder = d.pop("holder")

        _gpus = d.pop("gpus", UNSET)
        gpus: list[ShareRequest] | Unset = UNSET
        if _gpus is not UNSET:
            gpus = []
            for gpus_item_data in _gpus:
                gpus_item = ShareRequest.from_dict(gpus_item_data)

                gpus.append(gpus_item)

        _placement = d.pop("placement", UNSET)
        placement: PlacementRequest | Unset
        if isinstance(_placement, Unset):
            placement = UNSET
        else:
            placement = PlacementRequest.from_dict(_placement)

        expires_in_s = d.pop("expires_in_s", UNSET)

        _expires_at = d.pop("expires_at", UNSET)
        expires_at: datetime.datetime | Unset
        if isinstance(_expires_at, Unset):
            expires_at = UNSET
        else:
            expires_at = datetime.datetime.fromisoformat(_expires_at)

        reservation_request = cls(
            holder=holder,
            gpus=gpus,
            placement=placement,
            expires_in_s=expires_in_s,
            expires_at=expires_at,
        )

        return reservation_request
