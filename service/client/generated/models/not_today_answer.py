from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..models.not_today_answer_status import NotTodayAnswerStatus, check_not_today_answer_status

if TYPE_CHECKING:
    from ..models.held_answer import HeldAnswer


T = TypeVar("T", bound="NotTodayAnswer")


@_attrs_define
class NotTodayAnswer:
    """The cluster is large enough, but others are on it.

    Attributes:
        status (NotTodayAnswerStatus): Always `not_today`: by it a NotTodayAnswer is told from others.
        fits_now (bool): Whether it fits beside what is used and reserved now.
        fits_at_all (bool): Whether it fits on the empty cluster, with every node in service.
        reason (str): What is lacking today, in words.
        num_gpus (int): GPUs that are needed.
        free_gpus (int): GPUs of this kind that are free now.
        total_gpus (int): GPUs of this kind on the empty cluster.
        held (list[HeldAnswer]): Who holds the others.
        possible_at (None | str): When enough reservations will have expired; null if never.
    """

    status: NotTodayAnswerStatus
    fits_now: bool
    fits_at_all: bool
    reason: str
    num_gpus: int
    free_gpus: int
    total_gpus: int
    held: list[HeldAnswer]
    possible_at: None | str
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        status: str = self.status

        fits_now = self.fits_now

        fits_at_all = self.fits_at_all

        reason = self.reason

        num_gpus = self.num_gpus

        free_gpus = self.free_gpus

        total_gpus = self.total_gpus

        held = []
        for held_item_data in self.held:
            held_item = held_item_data.to_dict()
            held.append(held_item)

        possible_at: None | str
        possible_at = self.possible_at

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "status": status,
                "fits_now": fits_now,
                "fits_at_all": fits_at_all,
                "reason": reason,
                "num_gpus": num_gpus,
                "free_gpus": free_gpus,
                "total_gpus": total_gpus,
                "held": held,
                "possible_at": possible_at,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.held_answer import HeldAnswer  # noqa: PLC0415

        d = dict(src_dict)
        status = check_not_today_answer_status(d.pop("status"))

        fits_now = d.pop("fits_now")

        fits_at_all = d.pop("fits_at_all")

        reason = d.pop("reason")

        num_gpus = d.pop("num_gpus")

        free_gpus = d.pop("free_gpus")

        total_gpus = d.pop("total_gpus")

        held = []
        _held = d.pop("held")
        for held_item_data in _held:
            held_item = HeldAnswer.from_dict(held_item_data)

            held.append(held_item)

        def _parse_possible_at(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        possible_at = _parse_possible_at(d.pop("possible_at"))

        not_today_answer = cls(
            status=status,
            fits_now=fits_now,
            fits_at_all=fits_at_all,
            reason=reason,
            num_gpus=num_gpus,
            free_gpus=free_gpus,
            total_gpus=total_gpus,
            held=held,
            possible_at=possible_at,
        )

        not_today_answer.additional_properties = d
        return not_today_answer

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
