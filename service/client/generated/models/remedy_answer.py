from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

if TYPE_CHECKING:
    from ..models.remedy_answer_change import RemedyAnswerChange


T = TypeVar("T", bound="RemedyAnswer")


@_attrs_define
class RemedyAnswer:
    """A set of changes that was tried: what it saves, what comes of it, what it alters in the result, and what it costs in
    time and money.

    Asked by itself, it gives the same. Those that fit come first, the cheapest per token first; ratios are of this
    change over the question without it (1.33 is a third more).

        Attributes:
            change (RemedyAnswerChange): Fields of the workload and the layout with their new values, and `gpu` where it is
                another kind.
            saves_bytes (int): Bytes per GPU that the question needs less, never negative.
            verdict (str): `fits`, `tight` or `does_not_fit`.
            effects (list[str]): What the change alters in the result, as weights that are rounded; empty where the same is
                computed.
            step_time_s (float | None): Seconds of a step, or of a decode step; null where the GPU's rates are unknown.
            tokens_per_second (float | None): Tokens that the whole job makes in a second; null where the GPU's rates are
                unknown.
            time_ratio (float | None): Time per token of the whole job: below 1 it is done sooner. Where one of both was
                measured and the other was not, both are as the machine's other times predict them. Null where two kinds of GPU
                cannot be compared.
            slowdown (float | None): GPU time per token: on twice the GPUs at the same rate it is 2, though `time_ratio` is
                1. Null where two kinds of GPU cannot be compared.
            cost_ratio (float | None): Money per token, by which remedies are ordered: GPU time per token times the price of
                a GPU hour. On GPUs of one kind it is the GPU time; null where one of two kinds has no price.
            usd_per_million_tokens (float | None): By the catalogue's prices; null without a price or rates.
            gpu (str): Kind of GPU with this change.
            num_gpus (int): GPUs with this change.
    """

    change: RemedyAnswerChange
    saves_bytes: int
    verdict: str
    effects: list[str]
    step_time_s: float | None
    tokens_per_second: float | None
    time_ratio: float | None
    slowdown: float | None
    cost_ratio: float | None
    usd_per_million_tokens: float | None
    gpu: str
    num_gpus: int
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        change = self.change.to_dict()

        saves_bytes = self.saves_bytes

        verdict = self.verdict

        effects = self.effects

        step_time_s: float | None
        step_time_s = self.step_time_s

        tokens_per_second: float | None
        tokens_per_second = self.tokens_per_second

        time_ratio: float | None
        time_ratio = self.time_ratio

        slowdown: float | None
        slowdown = self.slowdown

        cost_ratio: float | None
        cost_ratio = self.cost_ratio

        usd_per_million_tokens: float | None
        usd_per_million_tokens = self.usd_per_million_tokens

        gpu = self.gpu

        num_gpus = self.num_gpus

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "change": change,
                "saves_bytes": saves_bytes,
                "verdict": verdict,
                "effects": effects,
                "step_time_s": step_time_s,
                "tokens_per_second": tokens_per_second,
                "time_ratio": time_ratio,
                "slowdown": slowdown,
                "cost_ratio": cost_ratio,
                "usd_per_million_tokens": usd_per_million_tokens,
                "gpu": gpu,
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

        effects = cast(list[str], d.pop("effects"))

        def _parse_step_time_s(data: object) -> float | None:
            if data is None:
                return data
            return cast(float | None, data)

        step_time_s = _parse_step_time_s(d.pop("step_time_s"))

        def _parse_tokens_per_second(data: object) -> float | None:
            if data is None:
                return data
            return cast(float | None, data)

        tokens_per_second = _parse_tokens_per_second(d.pop("tokens_per_second"))

        def _parse_time_ratio(data: object) -> float | None:
            if data is None:
                return data
            return cast(float | None, data)

        time_ratio = _parse_time_ratio(d.pop("time_ratio"))

        def _parse_slowdown(data: object) -> float | None:
            if data is None:
                return data
            return cast(float | None, data)

        slowdown = _parse_slowdown(d.pop("slowdown"))

        def _parse_cost_ratio(data: object) -> float | None:
            if data is None:
                return data
            return cast(float | None, data)

        cost_ratio = _parse_cost_ratio(d.pop("cost_ratio"))

        def _parse_usd_per_million_tokens(data: object) -> float | None:
            if data is None:
                return data
            return cast(float | None, data)

        usd_per_million_tokens = _parse_usd_per_million_tokens(d.pop("usd_per_million_tokens"))

        gpu = d.pop("gpu")

        num_gpus = d.pop("num_gpus")

        remedy_answer = cls(
            change=change,
            saves_bytes=saves_bytes,
            verdict=verdict,
            effects=effects,
            step_time_s=step_time_s,
            tokens_per_second=tokens_per_second,
            time_ratio=time_ratio,
            slowdown=slowdown,
            cost_ratio=cost_ratio,
            usd_per_million_tokens=usd_per_million_tokens,
            gpu=gpu,
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
