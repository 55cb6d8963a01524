from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

if TYPE_CHECKING:
    from ..models.dry_run_answer_host import DryRunAnswerHost
    from ..models.dry_run_answer_problem_type_0 import DryRunAnswerProblemType0
    from ..models.planned_run_answer import PlannedRunAnswer


T = TypeVar("T", bound="DryRunAnswer")


@_attrs_define
class DryRunAnswer:
    """What a measurement would run.

    Attributes:
        dry_run (bool): Always true: nothing was stored, and no worker was asked.
        runs (list[PlannedRunAnswer]): The runs, in their order.
        expected_s (float): Seconds that all runs together are expected to take on the device.
        notes (list[str]): What the plan leaves out or assumes.
        host (DryRunAnswerHost): What the plan rests on: the device's free memory and speed.
        worker (None | str): Which worker told of that host; null where none has yet, see `notes`.
        told_at (None | str): When that worker told of its host, RFC 3339, UTC; null where none has.
        problem (DryRunAnswerProblemType0 | None): Why the probe would refuse, as a problem document; then nothing runs.
            Null where it would not.
    """

    dry_run: bool
    runs: list[PlannedRunAnswer]
    expected_s: float
    notes: list[str]
    host: DryRunAnswerHost
    worker: None | str
    told_at: None | str
    problem: DryRunAnswerProblemType0 | None
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        from ..models.dry_run_answer_problem_type_0 import DryRunAnswerProblemType0  # noqa: PLC0415

        dry_run = self.dry_run

        runs = []
        for runs_item_data in self.runs:
            runs_item = runs_item_data.to_dict()
            runs.append(runs_item)

        expected_s = self.expected_s

        notes = self.notes

        host = self.host.to_dict()

        worker: None | str
        worker = self.worker

        told_at: None | str
        told_at = self.told_at

        problem: dict[str, Any] | None
        if isinstance(self.problem, DryRunAnswerProblemType0):
            problem = self.problem.to_dict()
        else:
            problem = self.problem

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "dry_run": dry_run,
                "runs": runs,
                "expected_s": expected_s,
                "notes": notes,
                "host": host,
                "worker": worker,
                "told_at": told_at,
                "problem": problem,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.dry_run_answer_host import DryRunAnswerHost  # noqa: PLC0415
        from ..models.dry_run_answer_problem_type_0 import DryRunAnswerProblemType0  # noqa: PLC0415
        from ..models.planned_run_answer import PlannedRunAnswer  # noqa: PLC0415

        d = dict(src_dict)
        dry_run = d.pop("dry_run")

        runs = []
        _runs = d.pop("runs")
        for runs_item_data in _runs:
            runs_item = PlannedRunAnswer.from_dict(runs_item_data)

            runs.append(runs_item)

        expected_s = d.pop("expected_s")

        notes = cast(list[str], d.pop("notes"))

        host = DryRunAnswerHost.from_dict(d.pop("host"))

        def _parse_worker(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        worker = _parse_worker(d.pop("worker"))

        def _parse_told_at(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        told_at = _parse_told_at(d.pop("told_at"))

        def _parse_problem(data: object) -> DryRunAnswerProblemType0 | None:
            if data is None:
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                problem_type_0 = DryRunAnswerProblemType0.from_dict(data)

                return problem_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(DryRunAnswerProblemType0 | None, data)

        problem = _parse_problem(d.pop("problem"))

        dry_run_answer = cls(
            dry_run=dry_run,
            runs=runs,
            expected_s=expected_s,
            notes=notes,
            host=host,
            worker=worker,
            told_at=told_at,
            problem=problem,
        )

        dry_run_answer.additional_properties = d
        return dry_run_answer

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
