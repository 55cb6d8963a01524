from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.volcano_node import VolcanoNode
    from ..models.volcano_task import VolcanoTask


T = TypeVar("T", bound="PrioritizeRequest")


@_attrs_define
class PrioritizeRequest:
    """A task, and the nodes that it may run on.

    Attributes:
        task (VolcanoTask): A pod, as Volcano has it.
        nodes (list[VolcanoNode] | None | Unset): The nodes; null where there are none.
    """

    task: VolcanoTask
    nodes: list[VolcanoNode] | None | Unset = UNSET
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        task = self.task.to_dict()

        nodes: list[dict[str, Any]] | None | Unset
        if isinstance(self.nodes, Unset):
            nodes = UNSET
        elif isinstance(self.nodes, list):
            nodes = []
            for nodes_type_0_item_data in self.nodes:
                nodes_type_0_item = nodes_type_0_item_data.to_dict()
                nodes.append(nodes_type_0_item)

        else:
            nodes = self.nodes

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "task": task,
            }
        )
        if nodes is not UNSET:
            field_dict["nodes"] = nodes

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.volcano_node import VolcanoNode  # noqa: PLC0415
        from ..models.volcano_task import VolcanoTask  # noqa: PLC0415

        d = dict(src_dict)
        task = VolcanoTask.from_dict(d.pop("task"))

        def _parse_nodes(data: object) -> list[VolcanoNode] | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, list):
                    raise TypeError()
                nodes_type_0 = []
                _nodes_type_0 = data
                for nodes_type_0_item_data in _nodes_type_0:
                    nodes_type_0_item = VolcanoNode.from_dict(nodes_type_0_item_data)

                    nodes_type_0.append(nodes_type_0_item)

                return nodes_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(list[VolcanoNode] | None | Unset, data)

        nodes = _parse_nodes(d.pop("nodes", UNSET))

        prioritize_request = cls(
            task=task,
            nodes=nodes,
        )

        prioritize_request.additional_properties = d
        return prioritize_request

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
