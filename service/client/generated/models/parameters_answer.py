from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define
from attrs import field as _attrs_field

if TYPE_CHECKING:
    from ..models.parameters_answer_by_module import ParametersAnswerByModule


T = TypeVar("T", bound="ParametersAnswer")


@_attrs_define
class ParametersAnswer:
    """Numbers of parameters; `active` are those that one token uses.

    Attributes:
        total (int): All parameters.
        active (int): Those that one token uses: of a mixture of experts fewer than all.
        embedding (int): Of the vocabulary: the input table, and the head where it has its own.
        by_module (ParametersAnswerByModule): Their number by kind of module; `frozen` takes these names.
    """

    total: int
    active: int
    embedding: int
    by_module: ParametersAnswerByModule
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        total = self.total

        active = self.active

        embedding = self.embedding

        by_module = self.by_module.to_dict()

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "total": total,
                "active": active,
                "embedding": embedding,
                "by_module": by_module,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.parameters_answer_by_module import ParametersAnswerByModule  # noqa: PLC0415

        d = dict(src_dict)
        total = d.pop("total")

        active = d.pop("active")

        embedding = d.pop("embedding")

        by_module = ParametersAnswerByModule.from_dict(d.pop("by_module"))

        parameters_answer = cls(
            total=total,
            active=active,
            embedding=embedding,
            by_module=by_module,
        )

        parameters_answer.additional_properties = d
        return parameters_answer

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
