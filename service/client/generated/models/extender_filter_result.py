from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

if TYPE_CHECKING:
    from ..models.extender_filter_result_failed_and_unresolvable_nodes import ExtenderFilterResultFailedAndUnresolvableNodes
    from ..models.extender_filter_result_failed_nodes import ExtenderFilterResultFailedNodes
    from ..models.extender_filter_result_nodes_type_0 import ExtenderFilterResultNodesType0


T = TypeVar("T", bound="ExtenderFilterResult")


@_attrs_define
class ExtenderFilterResult:
    """Nodes that hold a pod, and why the others do not.

    Attributes:
        nodes (ExtenderFilterResultNodesType0 | None): A NodeList of those left; null where names came.
        node_names (list[str] | None): Names of those left; null where nodes came.
        failed_nodes (ExtenderFilterResultFailedNodes): Empty: no preemption changes what a GPU holds.
        failed_and_unresolvable_nodes (ExtenderFilterResultFailedAndUnresolvableNodes): The line for each node that is
            left out.
        error (str): Empty: what cannot be answered leaves no node out.
    """

    nodes: ExtenderFilterResultNodesType0 | None
    node_names: list[str] | None
    failed_nodes: ExtenderFilterResultFailedNodes
    failed_and_unresolvable_nodes: ExtenderFilterResultFailedAndUnresolvableNodes
    error: str
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        from ..models.extender_filter_result_nodes_type_0 import ExtenderFilterResultNodesType0  # noqa: PLC0415

        nodes: dict[str, Any] | None
        if isinstance(self.nodes, ExtenderFilterResultNodesType0):
            nodes = self.nodes.to_dict()
        else:
            nodes = self.nodes

        node_names: list[str] | None
        if isinstance(self.node_names, list):
            node_names = self.node_names

        else:
            node_names = self.node_names

        failed_nodes = self.failed_nodes.to_dict()

        failed_and_unresolvable_nodes = self.failed_and_unresolvable_nodes.to_dict()

        error = self.error

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "Nodes": nodes,
                "NodeNames": node_names,
                "FailedNodes": failed_nodes,
                "FailedAndUnresolvableNodes": failed_and_unresolvable_nodes,
                "Error": error,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.extender_filter_result_failed_and_unresolvable_nodes import ExtenderFilterResultFailedAndUnresolvableNodes  # noqa: PLC0415
        from ..models.extender_filter_result_failed_nodes import ExtenderFilterResultFailedNodes  # noqa: PLC0415
        from ..models.extender_filter_result_nodes_type_0 import ExtenderFilterResultNodesType0  # noqa: PLC0415

        d = dict(src_dict)

        def _parse_nodes(data: object) -> ExtenderFilterResultNodesType0 | None:
            if data is None:
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                nodes_type_0 = ExtenderFilterResultNodesType0.from_dict(data)

                return nodes_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(ExtenderFilterResultNodesType0 | None, data)

        nodes = _parse_nodes(d.pop("Nodes"))

        def _parse_node_names(data: object) -> list[str] | None:
            if data is None:
                return data
            try:
                if not isinstance(data, list):
                    raise TypeError()
                node_names_type_0 = cast(list[str], data)

                return node_names_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(list[str] | None, data)

        node_names = _parse_node_names(d.pop("NodeNames"))

        failed_nodes = ExtenderFilterResultFailedNodes.from_dict(d.pop("FailedNodes"))

        failed_and_unresolvable_nodes = ExtenderFilterResultFailedAndUnresolvableNodes.from_dict(
            d.pop("FailedAndUnresolvableNodes")
        )

        error = d.pop("Error")

        extender_filter_result = cls(
            nodes=nodes,
            node_names=node_names,
            failed_nodes=failed_nodes,
            failed_and_unresolvable_nodes=failed_and_unresolvable_nodes,
            error=error,
        )

        extender_filter_result.additional_properties = d
        return extender_filter_result

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
