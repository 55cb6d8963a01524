from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

if TYPE_CHECKING:
    from ..models.gguf_answer_by_kind import GgufAnswerByKind
    from ..models.gguf_answer_by_type import GgufAnswerByType
    from ..models.gguf_tensor_answer import GgufTensorAnswer


T = TypeVar("T", bound="GgufAnswer")


@_attrs_define
class GgufAnswer:
    """Bytes of a GGUF file's tensors, counted one by one, without the padding between them.

    Attributes:
        total_bytes (int): Bytes of all tensors.
        num_elements (int): Elements of all tensors.
        by_type (GgufAnswerByType): Bytes by format.
        by_kind (GgufAnswerByKind): Bytes by kind of module.
        by_layer (list[int]): Bytes of each layer, in order.
        tensors (list[GgufTensorAnswer]): Every tensor, as in the file.
    """

    total_bytes: int
    num_elements: int
    by_type: GgufAnswerByType
    by_kind: GgufAnswerByKind
    by_layer: list[int]
    tensors: list[GgufTensorAnswer]
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        total_bytes = self.total_bytes

        num_elements = self.num_elements

        by_type = self.by_type.to_dict()

        by_kind = self.by_kind.to_dict()

        by_layer = self.by_layer

        tensors = []
        for tensors_item_data in self.tensors:
            tensors_item = tensors_item_data.to_dict()
            tensors.append(tensors_item)

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "total_bytes": total_bytes,
                "num_elements": num_elements,
                "by_type": by_type,
                "by_kind": by_kind,
                "by_layer": by_layer,
                "tensors": tensors,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.gguf_answer_by_kind import GgufAnswerByKind  # noqa: PLC0415
        from ..models.gguf_answer_by_type import GgufAnswerByType  # noqa: PLC0415
        from ..models.gguf_tensor_answer import GgufTensorAnswer  # noqa: PLC0415

        d = dict(src_dict)
        total_bytes = d.pop("total_bytes")

        num_elements = d.pop("num_elements")

        by_type = GgufAnswerByType.from_dict(d.pop("by_type"))

        by_kind = GgufAnswerByKind.from_dict(d.pop("by_kind"))

        by_layer = cast(list[int], d.pop("by_layer"))

        tensors = []
        _tensors = d.pop("tensors")
        for tensors_item_data in _tensors:
            tensors_item = GgufTensorAnswer.from_dict(tensors_item_data)

            tensors.append(tensors_item)

        gguf_answer = cls(
            total_bytes=total_bytes,
            num_elements=num_elements,
            by_type=by_type,
            by_kind=by_kind,
            by_layer=by_layer,
            tensors=tensors,
        )

        gguf_answer.additional_properties = d
        return gguf_answer

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
