from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..models.inventory_format import InventoryFormat, check_inventory_format

if TYPE_CHECKING:
    from ..models.import_omission import ImportOmission
    from ..models.inventory_change_answer import InventoryChangeAnswer
    from ..models.inventory_sums import InventorySums
    from ..models.unknown_gpu_answer import UnknownGpuAnswer


T = TypeVar("T", bound="ClusterImportAnswer")


@_attrs_define
class ClusterImportAnswer:
    """What an import changes, or would.

    Attributes:
        cluster (str): Name of the cluster.
        applied (bool): Whether it is stored; false of a dry run.
        created (bool): Whether there was, or would be, no such cluster before.
        format_ (InventoryFormat): Tool whose listing of nodes is read.
        source (str): The tool with its version, as nodes keep it.
        observed_at (str): RFC 3339, UTC: when the nodes were seen.
        before (InventorySums): A cluster's size.
        after (InventorySums): A cluster's size.
        num_added (int): Nodes that come.
        num_removed (int): Nodes that go.
        num_changed (int): Nodes that change.
        num_changes (int): All changes, of pools too; 0 where the cluster is as the content has it.
        changes (list[InventoryChangeAnswer]): The first 1,000 of them: pools, then nodes.
        unknown_gpus (list[UnknownGpuAnswer]): GPUs that are kept without an entry of the catalogue.
        left_out (list[ImportOmission]): What became no part of the cluster.
        warnings (list[str]): Reservations that it cannot keep, nodes that stay although the content lacks them, and
            what the content does not say.
    """

    cluster: str
    applied: bool
    created: bool
    format_: InventoryFormat
    source: str
    observed_at: str
    before: InventorySums
    after: InventorySums
    num_added: int
    num_removed: int
    num_changed: int
    num_changes: int
    changes: list[InventoryChangeAnswer]
    unknown_gpus: list[UnknownGpuAnswer]
    left_out: list[ImportOmission]
    warnings: list[str]
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        cluster = self.cluster

        applied = self.applied

        created = self.created

        format_: str = self.format_

        source = self.source

        observed_at = self.observed_at

        before = self.before.to_dict()

        after = self.after.to_dict()

        num_added = self.num_added

        num_removed = self.num_removed

        num_changed = self.num_changed

        num_changes = self.num_changes

        changes = []
        for changes_item_data in self.changes:
            changes_item = changes_item_data.to_dict()
            changes.append(changes_item)

        unknown_gpus = []
        for unknown_gpus_item_data in self.unknown_gpus:
            unknown_gpus_item = unknown_gpus_item_data.to_dict()
            unknown_gpus.append(unknown_gpus_item)

        left_out = []
        for left_out_item_data in self.left_out:
            left_out_item = left_out_item_data.to_dict()
            left_out.append(left_out_item)

        warnings = self.warnings

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "cluster": cluster,
                "applied": applied,
                "created": created,
                "format": format_,
                "source": source,
                "observed_at": observed_at,
                "before": before,
                "after": after,
                "num_added": num_added,
                "num_removed": num_removed,
                "num_changed": num_changed,
                "num_changes": num_changes,
                "changes": changes,
                "unknown_gpus": unknown_gpus,
                "left_out": left_out,
                "warnings": warnings,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.import_omission import ImportOmission  # noqa: PLC0415
        from ..models.inventory_change_answer import InventoryChangeAnswer  # noqa: PLC0415
        from ..models.inventory_sums import InventorySums  # noqa: PLC0415
        from ..models.unknown_gpu_answer import UnknownGpuAnswer  # noqa: PLC0415

        d = dict(src_dict)
        cluster = d.pop("cluster")

        applied = d.pop("applied")

        created = d.pop("created")

        format_ = check_inventory_format(d.pop("format"))

        source = d.pop("source")

        observed_at = d.pop("observed_at")

        before = InventorySums.from_dict(d.pop("before"))

        after = InventorySums.from_dict(d.pop("after"))

        num_added = d.pop("num_added")

        num_removed = d.pop("num_removed")

        num_changed = d.pop("num_changed")

        num_changes = d.pop("num_changes")

        changes = []
        _changes = d.pop("changes")
        for changes_item_data in _changes:
            changes_item = InventoryChangeAnswer.from_dict(changes_item_data)

            changes.append(changes_item)

        unknown_gpus = []
        _unknown_gpus = d.pop("unknown_gpus")
        for unknown_gpus_item_data in _unknown_gpus:
            unknown_gpus_item = UnknownGpuAnswer.from_dict(unknown_gpus_item_data)

            unknown_gpus.append(unknown_gpus_item)

        left_out = []
        _left_out = d.pop("left_out")
        for left_out_item_data in _left_out:
            left_out_item = ImportOmission.from_dict(left_out_item_data)

            left_out.append(left_out_item)

        warnings = cast(list[str], d.pop("warnings"))

        cluster_import_answer = cls(
            cluster=cluster,
            applied=applied,
            created=created,
            format_=format_,
            source=source,
            observed_at=observed_at,
            before=before,
            after=after,
            num_added=num_added,
            num_removed=num_removed,
            num_changed=num_changed,
            num_changes=num_changes,
            changes=changes,
            unknown_gpus=unknown_gpus,
            left_out=left_out,
            warnings=warnings,
        )

        cluster_import_answer.additional_properties = d
        return cluster_import_answer

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
