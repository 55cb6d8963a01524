from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.volcano_job_tasks_type_0 import VolcanoJobTasksType0


T = TypeVar("T", bound="VolcanoJob")


@_attrs_define
class VolcanoJob:
    """A job of Volcano.

    Attributes:
        tasks (None | Unset | VolcanoJobTasksType0): Its pods by id; null where none is made.
    """

    tasks: None | Unset | VolcanoJobTasksType0 = UNSET
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        from ..models.volcano_job_tasks_type_0 import VolcanoJobTasksType0  # noqa: PLC0415

        tasks: dict[str, Any] | None | Unset
        if isinstance(self.tasks, Unset):
            tasks = UNSET
        elif isinstance(self.tasks, VolcanoJobTasksType0):
            tasks = self.tasks.to_dict()
        else:
            tasks = self.tasks

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update({})
        if tasks is not UNSET:
            field_dict["Tasks"] = tasks

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.volcano_job_tasks_type_0 import VolcanoJobTasksType0  # noqa: PLC0415

        d = dict(src_dict)

        def _parse_tasks(data: object) -> None | Unset | VolcanoJobTasksType0:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                tasks_type_0 = VolcanoJobTasksType0.from_dict(data)

                return tasks_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(None | Unset | VolcanoJobTasksType0, data)

        tasks = _parse_tasks(d.pop("Tasks", UNSET))

        volcano_job = cls(
            tasks=tasks,
        )

        volcano_job.additional_properties = d
        return volcano_job

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
