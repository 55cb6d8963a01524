from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define

from ..models.placement_request_status import PlacementRequestStatus, check_placement_request_status
from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.seat_request import SeatRequest


T = TypeVar("T", bound="PlacementRequest")


@_attrs_define
class PlacementRequest:
    """The `placement` of a plan's candidate, as it was sent.

    Attributes:
        nodes (list[SeatRequest]): Of every replica, its nodes.
        status (PlacementRequestStatus | Unset): As a plan sent it; it changes nothing.
        num_gpus (int | Unset): GPUs, or slices where a MIG profile is named.
        gpus_per_node (int | None | Unset): As a plan sent it, null where its nodes differ; it changes nothing.
        cost_per_hour (float | None | Unset): As a plan sent it, null without a price; it changes nothing.
        notes (list[str] | Unset): As a plan sent them; they change nothing.
        fits_now (bool | Unset): As a plan sent it; it changes nothing.
        fits_at_all (bool | Unset): As a plan sent it; it changes nothing.
    """

    nodes: list[SeatRequest]
    status: PlacementRequestStatus | Unset = UNSET
    num_gpus: int | Unset = UNSET
    gpus_per_node: int | None | Unset = UNSET
    cost_per_hour: float | None | Unset = UNSET
    notes: list[str] | Unset = UNSET
    fits_now: bool | Unset = UNSET
    fits_at_all: bool | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        nodes = []
        for nodes_item_data in self.nodes:
            nodes_item = nodes_item_data.to_dict()
            nodes.append(nodes_item)

        status: str | Unset = UNSET
        if not isinstance(self.status, Unset):
            status = self.status

        num_gpus = self.num_gpus

        gpus_per_node: int | None | Unset
        if isinstance(self.gpus_per_node, Unset):
            gpus_per_node = UNSET
        else:
            gpus_per_node = self.gpus_per_node

        cost_per_hour: float | None | Unset
        if isinstance(self.cost_per_hour, Unset):
            cost_per_hour = UNSET
        else:
            cost_per_hour = self.cost_per_hour

        notes: list[str] | Unset = UNSET
        if not isinstance(self.notes, Unset):
            notes = self.notes

        fits_now = self.fits_now

        fits_at_all = self.fits_at_all

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "nodes": nodes,
            }
        )
        if status is not UNSET:
            field_dict["status"] = status
        if num_gpus is not UNSET:
            field_dict["num_gpus"] = num_gpus
        if gpus_per_node is not UNSET:
            field_dict["gpus_per_node"] = gpus_per_node
        if cost_per_hour is not UNSET:
            field_dict["cost_per_hour"] = cost_per_hour
        if notes is not UNSET:
            field_dict["notes"] = notes
        if fits_now is not UNSET:
            field_dict["fits_now"] = fits_now
        if fits_at_all is not UNSET:
            field_dict["fits_at_all"] = fits_at_all

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.seat_request import SeatRequest  # noqa: PLC0415

        d = dict(src_dict)
        nodes = []
        _nodes = d.pop("nodes")
        for nodes_item_data in _nodes:
            nodes_item = SeatRequest.from_dict(nodes_item_data)

            nodes.append(nodes_item)

        _status = d.pop("status", UNSET)
        status: PlacementRequestStatus | Unset
        if isinstance(_status, Unset):
            status = UNSET
        else:
            status = check_placement_request_status(_status)

        num_gpus = d.pop("num_gpus", UNSET)

        def _parse_gpus_per_node(data: object) -> int | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(int | None | Unset, data)

        gpus_per_node = _parse_gpus_per_node(d.pop("gpus_per_node", UNSET))

        def _parse_cost_per_hour(data: object) -> float | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(float | None | Unset, data)

        cost_per_hour = _parse_cost_per_hour(d.pop("cost_per_hour", UNSET))

        notes = cast(list[str], d.pop("notes", UNSET))

        fits_now = d.pop("fits_now", UNSET)

        fits_at_all = d.pop("fits_at_all", UNSET)

        placement_request = cls(
            nodes=nodes,
            status=status,
            num_gpus=num_gpus,
            gpus_per_node=gpus_per_node,
            cost_per_hour=cost_per_hour,
            notes=notes,
            fits_now=fits_now,
            fits_at_all=fits_at_all,
        )

        return placement_request
