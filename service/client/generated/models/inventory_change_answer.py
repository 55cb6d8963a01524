from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..models.change_kind import ChangeKind, check_change_kind

if TYPE_CHECKING:
    from ..models.field_change_answer import FieldChangeAnswer


T = TypeVar("T", bound="InventoryChangeAnswer")


@_attrs_define
class InventoryChangeAnswer:
    """A pool or a node that comes, goes or changes.

    Attributes:
        kind (ChangeKind): Kind of change of a node or a pool.
        pool (str): Name of the pool, after the import where it stays.
        gpu (str): Its GPU.
        node (None | str): Host name of the node; null where the pool itself changes.
        fields (list[FieldChangeAnswer]): What changes of it; empty where it comes or goes.
    """

    kind: ChangeKind
    pool: str
    gpu: str
    node: None | str
    fields: list[FieldChangeAnswer]
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        kind: str = self.kind

        pool = self.pool

        gpu = self.gpu

        node: None | str
        node = self.node

        fields = []
        for fields_item_data in self.fields:
            fields_item = fields_item_data.to_dict()
            fields.append(fields_item)

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "kind": kind,
                "pool": pool,
                "gpu": gpu,
                "node": node,
                "fields": fields,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.field_change_answer import FieldChangeAnswer  # noqa: PLC0415

        d = dict(src_dict)
        kind = check_change_kind(d.pop("kind"))

        pool = d.pop("pool")

        gpu = d.pop("gpu")

        def _parse_node(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        node = _parse_node(d.pop("node"))

        fields = []
        _fields = d.pop("fields")
        for fields_item_data in _fields:
            fields_item = FieldChangeAnswer.from_dict(fields_item_data)

            fields.append(fields_item)

        inventory_change_answer = cls(
            kind=kind,
            pool=pool,
            gpu=gpu,
            node=node,
            fields=fields,
        )

        inventory_change_answer.additional_properties = d
        return inventory_change_answer

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
