from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

if TYPE_CHECKING:
    from ..models.ceiling_answer_layout_type_0 import CeilingAnswerLayoutType0
    from ..models.ceiling_answer_workload_type_0 import CeilingAnswerWorkloadType0
    from ..models.fit_answer import FitAnswer
    from ..models.next_answer import NextAnswer


T = TypeVar("T", bound="CeilingAnswer")


@_attrs_define
class CeilingAnswer:
    """The largest value, the whole answer there, and what one more lacks; `value` is null when not even the least fits.

    Attributes:
        value (int | None): The largest value that fits; null where not even the least does.
        maximize (str): What was made as large as it goes.
        fit (FitAnswer | None): The answer of /v1/fit at the ceiling, without remedies.
        workload (CeilingAnswerWorkloadType0 | None): The workload at the ceiling, complete.
        layout (CeilingAnswerLayoutType0 | None): The layout at the ceiling, complete.
        next_ (NextAnswer): The value after the ceiling: what it lacks, or why it cannot run at all.
        num_evaluated (int): Configurations that were estimated.
        assumptions (list[str]): Every default that was used and not searched.
    """

    value: int | None
    maximize: str
    fit: FitAnswer | None
    workload: CeilingAnswerWorkloadType0 | None
    layout: CeilingAnswerLayoutType0 | None
    next_: NextAnswer
    num_evaluated: int
    assumptions: list[str]
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        from ..models.ceiling_answer_layout_type_0 import CeilingAnswerLayoutType0  # noqa: PLC0415
        from ..models.ceiling_answer_workload_type_0 import CeilingAnswerWorkloadType0  # noqa: PLC0415
        from ..models.fit_answer import FitAnswer  # noqa: PLC0415

        value: int | None
        value = self.value

        maximize = self.maximize

        fit: dict[str, Any] | None
        if isinstance(self.fit, FitAnswer):
            fit = self.fit.to_dict()
        else:
            fit = self.fit

        workload: dict[str, Any] | None
        if isinstance(self.workload, CeilingAnswerWorkloadType0):
            workload = self.workload.to_dict()
        else:
            workload = self.workload

        layout: dict[str, Any] | None
        if isinstance(self.layout, CeilingAnswerLayoutType0):
            layout = self.layout.to_dict()
        else:
            layout = self.layout

        next_ = self.next_.to_dict()

        num_evaluated = self.num_evaluated

        assumptions = self.assumptions

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "value": value,
                "maximize": maximize,
                "fit": fit,
                "workload": workload,
                "layout": layout,
                "next": next_,
                "num_evaluated": num_evaluated,
                "assumptions": assumptions,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.ceiling_answer_layout_type_0 import CeilingAnswerLayoutType0  # noqa: PLC0415
        from ..models.ceiling_answer_workload_type_0 import CeilingAnswerWorkloadType0  # noqa: PLC0415
        from ..models.fit_answer import FitAnswer  # noqa: PLC0415
        from ..models.next_answer import NextAnswer  # noqa: PLC0415

        d = dict(src_dict)

        def _parse_value(data: object) -> int | None:
            if data is None:
                return data
            return cast(int | None, data)

        value = _parse_value(d.pop("value"))

        maximize = d.pop("maximize")

        def _parse_fit(data: object) -> FitAnswer | None:
            if data is None:
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                fit_type_0 = FitAnswer.from_dict(data)

                return fit_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(FitAnswer | None, data)

        fit = _parse_fit(d.pop("fit"))

        def _parse_workload(data: object) -> CeilingAnswerWorkloadType0 | None:
            if data is None:
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                workload_type_0 = CeilingAnswerWorkloadType0.from_dict(data)

                return workload_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(CeilingAnswerWorkloadType0 | None, data)

        workload = _parse_workload(d.pop("workload"))

        def _parse_layout(data: object) -> CeilingAnswerLayoutType0 | None:
            if data is None:
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                layout_type_0 = CeilingAnswerLayoutType0.from_dict(data)

                return layout_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(CeilingAnswerLayoutType0 | None, data)

        layout = _parse_layout(d.pop("layout"))

        next_ = NextAnswer.from_dict(d.pop("next"))

        num_evaluated = d.pop("num_evaluated")

        assumptions = cast(list[str], d.pop("assumptions"))

        ceiling_answer = cls(
            value=value,
            maximize=maximize,
            fit=fit,
            workload=workload,
            layout=layout,
            next_=next_,
            num_evaluated=num_evaluated,
            assumptions=assumptions,
        )

        ceiling_answer.additional_properties = d
        return ceiling_answer

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
