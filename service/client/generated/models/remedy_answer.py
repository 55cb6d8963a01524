from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define
from attrs import field as _attrs_field

if TYPE_CHECKING:
    from ..models.remedy_answer_change import RemedyAnswerChange


T = TypeVar("T", bound="RemedyAnswer")


@_attrs_define
class RemedyAnswer:
    """A change that was tried: what it saves, what comes of it, and what it costs in time (1.33 is a third slower).

    Asked by itself, it gives the same. Those that fit come first, of equals the fastest per GPU first.

        Attributes:
            change (RemedyAnswerChange): Fields of the request, by their dotted paths, and the values that they get.
            saves_bytes (int): Bytes per GPU that the change saves; negative where it needs more.
            verdict (str): What comes of it: `fits`, `tight` or `does_not_fit`.
            slowdown (float): GPU time per token with this change over that without it.
            num_gpus (int): GPUs with this change.
    """

    change: RemedyAnswerChange
    saves_bytes: int
    verdict: str
    slowdown: float
    num_gpus: int
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        change = self.change.to_dict()

        saves_bytes = self.saves_bytes

        verdict = self.verdict

        slowdown = self.slowdown

        num_gpus = self.num_gpus

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "change": change,
                "saves_bytes": saves_bytes,
                "verdict": verdict,
                "slowdown": slowdown,
                "num_gpus": num_gpus,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.remedy_answer_change import RemedyAnswerChange  # noqa: PLC0415

        d = dict(src_dict)
        change = RemedyAnswerChange.from_dict(d.pop("change"))

        saves_bytes = d.pop("saves_bytes")

        verdict = d.pop("verdict")

        slowdown = d.pop("slowdown")

        num_gpus = d.pop("num_gpus")

        remedy_answer = cls(
            change=change,
            saves_bytes=saves_bytes,
            verdict=verdict,
            slowdown=slowdown,
            num_gpus=num_gpus,
        )

        remedy_answer.additional_properties = d
        return remedy_answer

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
