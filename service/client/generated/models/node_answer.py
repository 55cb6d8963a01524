from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define
from attrs import field as _attrs_field

if TYPE_CHECKING:
    from ..models.allocation_answer import AllocationAnswer
    from ..models.mig_slices_answer import MigSlicesAnswer


T = TypeVar("T", bound="NodeAnswer")


@_attrs_define
class NodeAnswer:
    """One node.

    Attributes:
        name (str): Host name of the node.
        allocated_gpus (int): GPUs that others hold.
        state (str): `ready`, or `drained`: then it gets no new work.
        reserved_gpus (int): GPUs that live reservations hold.
        free_gpus (int): Whole GPUs that can be given out now.
        allocations (list[AllocationAnswer]): Who holds GPUs of it, as far as it is known.
        mig_gpus (int): GPUs that MIG has cut into slices.
        mig_slices (list[MigSlicesAnswer]): The slices, by profile.
    """

    name: str
    allocated_gpus: int
    state: str
    reserved_gpus: int
    free_gpus: int
    allocations: list[AllocationAnswer]
    mig_gpus: int
    mig_slices: list[MigSlicesAnswer]
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        name = self.name

        allocated_gpus = self.allocated_gpus

        state = self.state

        reserved_gpus = self.reserved_gpus

        free_gpus = self.free_gpus

        allocations = []
        for allocations_item_data in self.allocations:
            allocations_item = allocations_item_data.to_dict()
            allocations.append(allocations_item)

        mig_gpus = self.mig_gpus

        mig_slices = []
        for mig_slices_item_data in self.mig_slices:
            mig_slices_item = mig_slices_item_data.to_dict()
            mig_slices.append(mig_slices_item)

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "name": name,
                "allocated_gpus": allocated_gpus,
                "state": state,
                "reserved_gpus": reserved_gpus,
                "free_gpus": free_gpus,
                "allocations": allocations,
                "mig_gpus": mig_gpus,
                "mig_slices": mig_slices,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.allocation_answer import AllocationAnswer  # noqa: PLC0415
        from ..models.mig_slices_answer import MigSlicesAnswer  # noqa: PLC0415

        d = dict(src_dict)
        name = d.pop("name")

        allocated_gpus = d.pop("allocated_gpus")

        state = d.pop("state")

        reserved_gpus = d.pop("reserved_gpus")

        free_gpus = d.pop("free_gpus")

        allocations = []
        _allocations = d.pop("allocations")
        for allocations_item_data in _allocations:
            allocations_item = AllocationAnswer.from_dict(allocations_item_data)

            allocations.append(allocations_item)

        mig_gpus = d.pop("mig_gpus")

        mig_slices = []
        _mig_slices = d.pop("mig_slices")
        for mig_slices_item_data in _mig_slices:
            mig_slices_item = MigSlicesAnswer.from_dict(mig_slices_item_data)

            mig_slices.append(mig_slices_item)

        node_answer = cls(
            name=name,
            allocated_gpus=allocated_gpus,
            state=state,
            reserved_gpus=reserved_gpus,
            free_gpus=free_gpus,
            allocations=allocations,
            mig_gpus=mig_gpus,
            mig_slices=mig_slices,
        )

        node_answer.additional_properties = d
        return node_answer

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
