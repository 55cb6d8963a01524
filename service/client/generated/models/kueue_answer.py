from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..models.action import Action, check_action
from ..models.hook_verdict import HookVerdict, check_hook_verdict

if TYPE_CHECKING:
    from ..models.kueue_answer_operations_item import KueueAnswerOperationsItem


T = TypeVar("T", bound="KueueAnswer")


@_attrs_define
class KueueAnswer:
    """What becomes of a job that Kueue holds.

    Attributes:
        choice (int): Place in `objects` of what is decided: the first that fits.
        verdict (HookVerdict): Verdict on a submitted job.

            ``none`` where it asks for no GPU and no question.
        action (Action): Outcome of a hook for a job.
        sentence (str): The line that its user reads; empty where none.
        gpu (None | str): The GPU that it was answered for; null if none.
        operations (list[KueueAnswerOperationsItem]): The JSON patch (RFC 6902) that gives the job the GPUs that it
            needs; empty where it keeps its own.
        is_transient (bool): Whether the server was too busy, or is yet looking for a number of GPUs: another try may be
            answered.
    """

    choice: int
    verdict: HookVerdict
    action: Action
    sentence: str
    gpu: None | str
    operations: list[KueueAnswerOperationsItem]
    is_transient: bool
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        choice = self.choice

        verdict: str = self.verdict

        action: str = self.action

        sentence = self.sentence

        gpu: None | str
        gpu = self.gpu

        operations = []
        for operations_item_data in self.operations:
            operations_item = operations_item_data.to_dict()
            operations.append(operations_item)

        is_transient = self.is_transient

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "choice": choice,
                "verdict": verdict,
                "action": action,
                "sentence": sentence,
                "gpu": gpu,
                "operations": operations,
                "is_transient": is_transient,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.kueue_answer_operations_item import KueueAnswerOperationsItem  # noqa: PLC0415

        d = dict(src_dict)
        choice = d.pop("choice")

        verdict = check_hook_verdict(d.pop("verdict"))

        action = check_action(d.pop("action"))

        sentence = d.pop("sentence")

        def _parse_gpu(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        gpu = _parse_gpu(d.pop("gpu"))

        operations = []
        _operations = d.pop("operations")
        for operations_item_data in _operations:
            operations_item = KueueAnswerOperationsItem.from_dict(operations_item_data)

            operations.append(operations_item)

        is_transient = d.pop("is_transient")

        kueue_answer = cls(
            choice=choice,
            verdict=verdict,
            action=action,
            sentence=sentence,
            gpu=gpu,
            operations=operations,
            is_transient=is_transient,
        )

        kueue_answer.additional_properties = d
        return kueue_answer

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
