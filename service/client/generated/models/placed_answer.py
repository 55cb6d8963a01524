from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..models.placed_answer_status import PlacedAnswerStatus, check_placed_answer_status

if TYPE_CHECKING:
    from ..models.seat_answer import SeatAnswer


T = TypeVar("T", bound="PlacedAnswer")


@_attrs_define
class PlacedAnswer:
    """Where the job runs; as `placement` of a reservation it is promised.

    Attributes:
        status (PlacedAnswerStatus): Always `placed`: by it a PlacedAnswer is told from others.
        fits_now (bool): Whether it fits beside what is used and reserved now.
        fits_at_all (bool): Whether it fits on the empty cluster, with every node in service.
        num_gpus (int): GPUs that are given to the job, of all nodes.
        gpus_per_node (int | None): GPUs of a replica on each of its nodes; null where they differ.
        cost_per_hour (float | None): By the prices of the pools; null where one has none.
        nodes (list[SeatAnswer]): The GPUs of every replica, node by node.
        notes (list[str]): What the placement rests on.
    """

    status: PlacedAnswerStatus
    fits_now: bool
    fits_at_all: bool
    num_gpus: int
    gpus_per_node: int | None
    cost_per_hour: float | None
    nodes: list[SeatAnswer]
    notes: list[str]
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        status: str = self.status

        fits_now = self.fits_now

        fits_at_all = self.fits_at_all

        num_gpus = self.num_gpus

        gpus_per_node: int | None
        gpus_per_node = self.gpus_per_node

        cost_per_hour: float | None
        cost_per_hour = self.cost_per_hour

        nodes = []
        for nodes_item_data in self.nodes:
            nodes_item = nodes_item_data.to_dict()
            nodes.append(nodes_item)

        notes = self.notes

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "status": status,
                "fits_now": fits_now,
                "fits_at_all": fits_at_all,
                "num_gpus": num_gpus,
                "gpus_per_node": gpus_per_node,
                "cost_per_hour": cost_per_hour,
                "nodes": nodes,
                "notes": notes,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.seat_answer import SeatAnswer  # noqa: PLC0415

        d = dict(src_dict)
        status = check_placed_answer_status(d.pop("status"))

        fits_now = d.pop("fits_now")

        fits_at_all = d.pop("fits_at_all")

        num_gpus = d.pop("num_gpus")

        def _parse_gpus_per_node(data: object) -> int | None:
            if data is None:
                return data
            return cast(int | None, data)

        gpus_per_node = _parse_gpus_per_node(d.pop("gpus_per_node"))

        def _parse_cost_per_hour(data: object) -> float | None:
            if data is None:
                return data
            return cast(float | None, data)

        cost_per_hour = _parse_cost_per_hour(d.pop("cost_per_hour"))

        nodes = []
        _nodes = d.pop("nodes")
        for nodes_item_data in _nodes:
            nodes_item = SeatAnswer.from_dict(nodes_item_data)

            nodes.append(nodes_item)

        notes = cast(list[str], d.pop("notes"))

        placed_answer = cls(
            status=status,
            fits_now=fits_now,
            fits_at_all=fits_at_all,
            num_gpus=num_gpus,
            gpus_per_node=gpus_per_node,
            cost_per_hour=cost_per_hour,
            nodes=nodes,
            notes=notes,
        )

        placed_answer.additional_properties = d
        return placed_answer

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
