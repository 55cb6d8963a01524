from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

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
        levels (list[str]): Its places in the network, one for each of the pool's `level_names`; empty where they are
            not known.
        source (None | str): The tool that showed it, with its version; null where somebody typed it.
        observed_at (None | str): RFC 3339, UTC: when it was last seen; null where typed.
        unavailable (None | str): Why it takes no work, as its source says it; null where nobody says.
    """

    name: str
    allocated_gpus: int
    state: str
    reserved_gpus: int
    free_gpus: int
    allocations: list[AllocationAnswer]
    mig_gpus: int
    mig_slices: list[MigSlicesAnswer]
    levels: list[str]
    source: None | str
    observed_at: None | str
    unavailable: None | str
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

        levels = self.levels

        source: None | str
        source = self.source

        observed_at: None | str
        observed_at = self.observed_at

        unavailable: None | str
        unavailable = self.unavailable

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
                "levels": levels,
                "source": source,
                "observed_at": observed_at,
                "unavailable": unavailable,
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

        levels = cast(list[str], d.pop("levels"))

        def _parse_source(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        source = _parse_source(d.pop("source"))

        def _parse_observed_at(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        observed_at = _parse_observed_at(d.pop("observed_at"))

        def _parse_unavailable(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        unavailable = _parse_unavailable(d.pop("unavailable"))

        node_answer = cls(
            name=name,
            allocated_gpus=allocated_gpus,
            state=state,
            reserved_gpus=reserved_gpus,
            free_gpus=free_gpus,
            allocations=allocations,
            mig_gpus=mig_gpus,
            mig_slices=mig_slices,
            levels=levels,
            source=source,
            observed_at=observed_at,
            unavailable=unavailable,
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
