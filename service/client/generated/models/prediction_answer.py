from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

if TYPE_CHECKING:
    from ..models.comparison_answer import ComparisonAnswer
    from ..models.fit_answer import FitAnswer
    from ..models.tensor_answer import TensorAnswer


T = TypeVar("T", bound="PredictionAnswer")


@_attrs_define
class PredictionAnswer:
    """What the question predicts, and how far that agrees.

    Attributes:
        fit (FitAnswer): The verdict, and everything it rests on.
        available_bytes (int | None): Bytes that the GPU had for this process, where that is not what the question's GPU
            has; else null.
        tensors (list[TensorAnswer]): Tensors that have the requested size, by its printed digits; where all are of one
            instant and no traceback tells it, `place` is that.
        comparisons (list[ComparisonAnswer]): Predicted beside read.
        notes (list[str]): What does not agree, in words.
    """

    fit: FitAnswer
    available_bytes: int | None
    tensors: list[TensorAnswer]
    comparisons: list[ComparisonAnswer]
    notes: list[str]
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        fit = self.fit.to_dict()

        available_bytes: int | None
        available_bytes = self.available_bytes

        tensors = []
        for tensors_item_data in self.tensors:
            tensors_item = tensors_item_data.to_dict()
            tensors.append(tensors_item)

        comparisons = []
        for comparisons_item_data in self.comparisons:
            comparisons_item = comparisons_item_data.to_dict()
            comparisons.append(comparisons_item)

        notes = self.notes

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "fit": fit,
                "available_bytes": available_bytes,
                "tensors": tensors,
                "comparisons": comparisons,
                "notes": notes,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.comparison_answer import ComparisonAnswer  # noqa: PLC0415
        from ..models.fit_answer import FitAnswer  # noqa: PLC0415
        from ..models.tensor_answer import TensorAnswer  # noqa: PLC0415

        d = dict(src_dict)
        fit = FitAnswer.from_dict(d.pop("fit"))

        def _parse_available_bytes(data: object) -> int | None:
            if data is None:
                return data
            return cast(int | None, data)

        available_bytes = _parse_available_bytes(d.pop("available_bytes"))

        tensors = []
        _tensors = d.pop("tensors")
        for tensors_item_data in _tensors:
            tensors_item = TensorAnswer.from_dict(tensors_item_data)

            tensors.append(tensors_item)

        comparisons = []
        _comparisons = d.pop("comparisons")
        for comparisons_item_data in _comparisons:
            comparisons_item = ComparisonAnswer.from_dict(comparisons_item_data)

            comparisons.append(comparisons_item)

        notes = cast(list[str], d.pop("notes"))

        prediction_answer = cls(
            fit=fit,
            available_bytes=available_bytes,
            tensors=tensors,
            comparisons=comparisons,
            notes=notes,
        )

        prediction_answer.additional_properties = d
        return prediction_answer

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
