from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.volcano_task_pod_type_0 import VolcanoTaskPodType0


T = TypeVar("T", bound="VolcanoTask")


@_attrs_define
class VolcanoTask:
    """A pod, as Volcano has it.

    Attributes:
        pod (None | Unset | VolcanoTaskPodType0): The pod that looks for a node. Null of a task without one.
    """

    pod: None | Unset | VolcanoTaskPodType0 = UNSET
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        from ..models.volcano_task_pod_type_0 import VolcanoTaskPodType0  # noqa: PLC0415

        pod: dict[str, Any] | None | Unset
        if isinstance(self.pod, Unset):
            pod = UNSET
        elif isinstance(self.pod, VolcanoTaskPodType0):
            pod = self.pod.to_dict()
        else:
            pod = self.pod

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update({})
        if pod is not UNSET:
            field_dict["Pod"] = pod

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.volcano_task_pod_type_0 import VolcanoTaskPodType0  # noqa: PLC0415

        d = dict(src_dict)

        def _parse_pod(data: object) -> None | Unset | VolcanoTaskPodType0:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                pod_type_0 = VolcanoTaskPodType0.from_dict(data)

                return pod_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(None | Unset | VolcanoTaskPodType0, data)

        pod = _parse_pod(d.pop("Pod", UNSET))

        volcano_task = cls(
            pod=pod,
        )

        volcano_task.additional_properties = d
        return volcano_task

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
