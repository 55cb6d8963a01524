from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.volcano_node_node_type_0 import VolcanoNodeNodeType0


T = TypeVar("T", bound="VolcanoNode")


@_attrs_define
class VolcanoNode:
    """A node, as Volcano has it.

    Attributes:
        name (str | Unset): Name of the node. Default: ''.
        node (None | Unset | VolcanoNodeNodeType0): The node of Kubernetes; null where it is gone.
    """

    name: str | Unset = ""
    node: None | Unset | VolcanoNodeNodeType0 = UNSET
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        from ..models.volcano_node_node_type_0 import VolcanoNodeNodeType0  # noqa: PLC0415

        name = self.name

        node: dict[str, Any] | None | Unset
        if isinstance(self.node, Unset):
            node = UNSET
        elif isinstance(self.node, VolcanoNodeNodeType0):
            node = self.node.to_dict()
        else:
            node = self.node

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update({})
        if name is not UNSET:
            field_dict["Name"] = name
        if node is not UNSET:
            field_dict["Node"] = node

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.volcano_node_node_type_0 import VolcanoNodeNodeType0  # noqa: PLC0415

        d = dict(src_dict)
        name = d.pop("Name", UNSET)

        def _parse_node(data: object) -> None | Unset | VolcanoNodeNodeType0:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                node_type_0 = VolcanoNodeNodeType0.from_dict(data)

                return node_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(None | Unset | VolcanoNodeNodeType0, data)

        node = _parse_node(d.pop("Node", UNSET))

        volcano_node = cls(
            name=name,
            node=node,
        )

        volcano_node.additional_properties = d
        return volcano_node

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
