from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

if TYPE_CHECKING:
    from ..models.memory_answer import MemoryAnswer


T = TypeVar("T", bound="RejectedAnswer")


@_attrs_define
class RejectedAnswer:
    """A number of GPUs that is too small, and what came nearest; its instant is `layout` where no layout fills it.

    Attributes:
        num_gpus (int): GPUs that are not enough.
        gpu (MemoryAnswer | str): The GPU, as a request names or describes it.
        reason (str): Why, in words.
        instant (str): The instant at which the nearest configuration lacks bytes.
        component (str): The largest part of the bytes then.
        deficit_bytes (int): Device less usable bytes, 0 when it is only tight.
        missing_bytes (int): Bytes that it lacks for the confidence, at the upper end of the interval.
    """

    num_gpus: int
    gpu: MemoryAnswer | str
    reason: str
    instant: str
    component: str
    deficit_bytes: int
    missing_bytes: int
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        from ..models.memory_answer import MemoryAnswer  # noqa: PLC0415

        num_gpus = self.num_gpus

        gpu: dict[str, Any] | str
        if isinstance(self.gpu, MemoryAnswer):
            gpu = self.gpu.to_dict()
        else:
            gpu = self.gpu

        reason = self.reason

        instant = self.instant

        component = self.component

        deficit_bytes = self.deficit_bytes

        missing_bytes = self.missing_bytes

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "num_gpus": num_gpus,
                "gpu": gpu,
                "reason": reason,
                "instant": instant,
                "component": component,
                "deficit_bytes": deficit_bytes,
                "missing_bytes": missing_bytes,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.memory_answer import MemoryAnswer  # noqa: PLC0415

        d = dict(src_dict)
        num_gpus = d.pop("num_gpus")

        def _parse_gpu(data: object) -> MemoryAnswer | str:
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                gpu_type_1 = MemoryAnswer.from_dict(data)

                return gpu_type_1
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(MemoryAnswer | str, data)

        gpu = _parse_gpu(d.pop("gpu"))

        reason = d.pop("reason")

        instant = d.pop("instant")

        component = d.pop("component")

        deficit_bytes = d.pop("deficit_bytes")

        missing_bytes = d.pop("missing_bytes")

        rejected_answer = cls(
            num_gpus=num_gpus,
            gpu=gpu,
            reason=reason,
            instant=instant,
            component=component,
            deficit_bytes=deficit_bytes,
            missing_bytes=missing_bytes,
        )

        rejected_answer.additional_properties = d
        return rejected_answer

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
