from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..models.action import Action, check_action
from ..models.hook_verdict import HookVerdict, check_hook_verdict

if TYPE_CHECKING:
    from ..models.slurm_answer_options import SlurmAnswerOptions


T = TypeVar("T", bound="SlurmAnswer")


@_attrs_define
class SlurmAnswer:
    """What becomes of a job of Slurm's.

    Attributes:
        action (Action): Outcome of a hook for a job.
        verdict (HookVerdict): Verdict on a submitted job.

            ``none`` where it asks for no GPU and no question.
        sentence (str): The line for its user; of `allow`, for logs alone. May be empty.
        gpu (None | str): SKU that it was answered for; null where there is none.
        options (SlurmAnswerOptions): Options that the job gets: its GPUs where they are changed, and the comment that
            names its question to its nodes.
    """

    action: Action
    verdict: HookVerdict
    sentence: str
    gpu: None | str
    options: SlurmAnswerOptions
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        action: str = self.action

        verdict: str = self.verdict

        sentence = self.sentence

        gpu: None | str
        gpu = self.gpu

        options = self.options.to_dict()

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "action": action,
                "verdict": verdict,
                "sentence": sentence,
                "gpu": gpu,
                "options": options,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.slurm_answer_options import SlurmAnswerOptions  # noqa: PLC0415

        d = dict(src_dict)
        action = check_action(d.pop("action"))

        verdict = check_hook_verdict(d.pop("verdict"))

        sentence = d.pop("sentence")

        def _parse_gpu(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        gpu = _parse_gpu(d.pop("gpu"))

        options = SlurmAnswerOptions.from_dict(d.pop("options"))

        slurm_answer = cls(
            action=action,
            verdict=verdict,
            sentence=sentence,
            gpu=gpu,
            options=options,
        )

        slurm_answer.additional_properties = d
        return slurm_answer

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
