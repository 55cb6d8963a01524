from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

if TYPE_CHECKING:
    from ..models.span_answer import SpanAnswer


T = TypeVar("T", bound="ProcessAnswer")


@_attrs_define
class ProcessAnswer:
    """One process on the GPU.

    Attributes:
        pid (int | None): Its id; null of the one that failed and did not print it.
        memory (SpanAnswer): Bytes as printed: the true number lies between the ends, by the digits.
        is_failing (bool): Whether it is the one that failed. In a container PyTorch does not know its own id: it is
            then the least process that has what the allocator had reserved.
    """

    pid: int | None
    memory: SpanAnswer
    is_failing: bool
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        pid: int | None
        pid = self.pid

        memory = self.memory.to_dict()

        is_failing = self.is_failing

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "pid": pid,
                "memory": memory,
                "is_failing": is_failing,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.span_answer import SpanAnswer  # noqa: PLC0415

        d = dict(src_dict)

        def _parse_pid(data: object) -> int | None:
            if data is None:
                return data
            return cast(int | None, data)

        pid = _parse_pid(d.pop("pid"))

        memory = SpanAnswer.from_dict(d.pop("memory"))

        is_failing = d.pop("is_failing")

        process_answer = cls(
            pid=pid,
            memory=memory,
            is_failing=is_failing,
        )

        process_answer.additional_properties = d
        return process_answer

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
