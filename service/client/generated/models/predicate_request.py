from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define
from attrs import field as _attrs_field

if TYPE_CHECKING:
    from ..models.volcano_node import VolcanoNode
    from ..models.volcano_task import VolcanoTask


T = TypeVar("T", bound="PredicateRequest")


@_attrs_define
class PredicateRequest:
    """A task, and a node that it may run on.

    Attributes:
        task (VolcanoTask): A pod, as Volcano has it.
        node (VolcanoNode): A node, as Volcano has it.
    """

    task: VolcanoTask
    node: VolcanoNode
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        task = self.task.to_dict()

        node = self.node.to_dict()

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "task": task,
                "node": node,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.volcano_node import VolcanoNode  # noqa: PLC0415
        from ..models.volcano_task import VolcanoTask  # noqa: PLC0415

        d = dict(src_dict)
        task = VolcanoTask.from_dict(d.pop("task"))

        node = VolcanoNode.from_dict(d.pop("node"))

        predicate_request = cls(
            task=task,
            node=node,
        )

        predicate_request.additional_properties = d
        return predicate_request

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
