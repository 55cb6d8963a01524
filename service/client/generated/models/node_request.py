from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define

from ..models.node_request_state import NodeRequestState, check_node_request_state
from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.allocation_request import AllocationRequest
    from ..models.mig_slices_request import MigSlicesRequest


T = TypeVar("T", bound="NodeRequest")


@_attrs_define
class NodeRequest:
    """One node by name.

    Attributes:
        name (str): Host name of a node.
        allocated_gpus (int | Unset): GPUs that others hold; the sum of `allocations` where it is absent.
        state (NodeRequestState | Unset): Whether new work may be placed here. Default: 'ready'.
        allocations (list[AllocationRequest] | Unset): Who holds GPUs, as far as it is known. With all indices, free
            NVLink islands are known too.
        mig_gpus (int | Unset): GPUs that MIG has cut into slices; they serve as those alone. Default: 0.
        mig_slices (list[MigSlicesRequest] | Unset): The slices that its `mig_gpus` are cut into, by profile.
        levels (list[str] | Unset): Its places in the network, one for each of the pool's `level_names`.
        source (str | Unset): The tool that showed it, as an import wrote it.
        observed_at (datetime.datetime | Unset): RFC 3339: when it was seen as it is here.
        unavailable (str | Unset): Why it takes no work.
    """

    name: str
    allocated_gpus: int | Unset = UNSET
    state: NodeRequestState | Unset = "ready"
    allocations: list[AllocationRequest] | Unset = UNSET
    mig_gpus: int | Unset = 0
    mig_slices: list[MigSlicesRequest] | Unset = UNSET
    levels: list[str] | Unset = UNSET
    source: str | Unset = UNSET
    observed_at: datetime.datetime | Unset = UNSET
    unavailable: str | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        name = self.name

        allocated_gpus = self.allocated_gpus

        state: str | Unset = UNSET
        if not isinstance(self.state, Unset):
            state = self.state

        allocations: list[dict[str, Any]] | Unset = UNSET
        if not isinstance(self.allocations, Unset):
            allocations = []
            for allocations_item_data in self.allocations:
                allocations_item = allocations_item_data.to_dict()
                allocations.append(allocations_item)

        mig_gpus = self.mig_gpus

        mig_slices: list[dict[str, Any]] | Unset = UNSET
        if not isinstance(self.mig_slices, Unset):
            mig_slices = []
            for mig_slices_item_data in self.mig_slices:
                mig_slices_item = mig_slices_item_data.to_dict()
                mig_slices.append(mig_slices_item)

        levels: list[str] | Unset = UNSET
        if not isinstance(self.levels, Unset):
            levels = self.levels

        source = self.source

        observed_at: str | Unset = UNSET
        if not isinstance(self.observed_at, Unset):
            observed_at = self.observed_at.isoformat()

        unavailable = self.unavailable

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "name": name,
            }
        )
        if allocated_gpus is not UNSET:
            field_dict["allocated_gpus"] = allocated_gpus
        if state is not UNSET:
            field_dict["state"] = state
        if allocations is not UNSET:
            field_dict["allocations"] = allocations
        if mig_gpus is not UNSET:
            field_dict["mig_gpus"] = mig_gpus
        if mig_slices is not UNSET:
            field_dict["mig_slices"] = mig_slices
        if levels is not UNSET:
            field_dict["levels"] = levels
        if source is not UNSET:
            field_dict["source"] = source
        if observed_at is not UNSET:
            field_dict["observed_at"] = observed_at
        if unavailable is not UNSET:
            field_dict["unavailable"] = unavailable

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.allocation_request import AllocationRequest  # noqa: PLC0415
        from ..models.mig_slices_request import MigSlicesRequest  # noqa: PLC0415

        d = dict(src_dict)
        name = d.pop("name")

        allocated_gpus = d.pop("allocated_gpus", UNSET)

        _state = d.pop("state", UNSET)
        state: NodeRequestState | Unset
        if isinstance(_state, Unset):
            state = UNSET
        else:
            state = check_node_request_state(_state)

        _allocations = d.pop("allocations", UNSET)
        allocations: list[AllocationRequest] | Unset = UNSET
        if _allocations is not UNSET:
            allocations = []
            for allocations_item_data in _allocations:
                allocations_item = AllocationRequest.from_dict(allocations_item_data)

                allocations.append(allocations_item)

        mig_gpus = d.pop("mig_gpus", UNSET)

        _mig_slices = d.pop("mig_slices", UNSET)
        mig_slices: list[MigSlicesRequest] | Unset = UNSET
        if _mig_slices is not UNSET:
            mig_slices = []
            for mig_slices_item_data in _mig_slices:
                mig_slices_item = MigSlicesRequest.from_dict(mig_slices_item_data)

                mig_slices.append(mig_slices_item)

        levels = cast(list[str], d.pop("levels", UNSET))

        source = d.pop("source", UNSET)

        _observed_at = d.pop("observed_at", UNSET)
        observed_at: datetime.datetime | Unset
        if isinstance(_observed_at, Unset):
            observed_at = UNSET
        else:
            observed_at = datetime.datetime.fromisoformat(_observed_at)

        unavailable = d.pop("unavailable", UNSET)

        node_request = cls(
            name=name,
            allocated_gpus=allocated_gpus,
            state=state,
            allocations=allocations,
            mig_gpus=mig_gpus,
            mig_slices=mig_slices,
            levels=levels,
            source=source,
            observed_at=observed_at,
            unavailable=unavailable,
        )

        return node_request
