from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..models.failed_memory import FailedMemory, check_failed_memory
from ..models.failure_speaker import FailureSpeaker, check_failure_speaker

if TYPE_CHECKING:
    from ..models.balance_answer import BalanceAnswer
    from ..models.cause_answer import CauseAnswer
    from ..models.failure_change_answer import FailureChangeAnswer
    from ..models.growth_answer import GrowthAnswer
    from ..models.place_answer import PlaceAnswer
    from ..models.prediction_answer import PredictionAnswer
    from ..models.process_answer import ProcessAnswer
    from ..models.read_number_answer import ReadNumberAnswer


T = TypeVar("T", bound="ExplainAnswer")


@_attrs_define
class ExplainAnswer:
    """What ran out, where, why, and the smallest change that would have fitted.

    Attributes:
        summary (str): What happened, in one sentence.
        memory (FailedMemory): Memory that ran out.
        speaker (FailureSpeaker): Program whose words a failure is told in.
        release (None | str): Releases of the speaker that word it so; null if any.
        engine (None | str): Serving engine of the log; null if none.
        line (int | None): Line of the failure; null of a snapshot.
        rank (None | str): Rank or process that failed; null if unknown.
        gpu (int | None): Index of the GPU; null if unknown.
        num_failures (int): Failures that the log tells, this one too.
        read (list[ReadNumberAnswer]): Every number that was read, with its line.
        balance (BalanceAnswer): Who had what of the GPU when it failed; null is what the log does not tell.
        processes (list[ProcessAnswer]): Processes that the log names.
        place (None | PlaceAnswer): Where in the run; null where nothing tells it.
        growth (GrowthAnswer | None): Memory that grows; null where none does.
        causes (list[CauseAnswer]): Why, the best explanation first.
        changes (list[FailureChangeAnswer]): What would have helped.
        prediction (None | PredictionAnswer): Null where no question was sent.
        notes (list[str]): What the file itself leaves open.
    """

    summary: str
    memory: FailedMemory
    speaker: FailureSpeaker
    release: None | str
    engine: None | str
    line: int | None
    rank: None | str
    gpu: int | None
    num_failures: int
    read: list[ReadNumberAnswer]
    balance: BalanceAnswer
    processes: list[ProcessAnswer]
    place: None | PlaceAnswer
    growth: GrowthAnswer | None
    causes: list[CauseAnswer]
    changes: list[FailureChangeAnswer]
    prediction: None | PredictionAnswer
    notes: list[str]
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        from ..models.growth_answer import GrowthAnswer  # noqa: PLC0415
        from ..models.place_answer import PlaceAnswer  # noqa: PLC0415
        from ..models.prediction_answer import PredictionAnswer  # noqa: PLC0415

        summary = self.summary

        memory: str = self.memory

        speaker: str = self.speaker

        release: None | str
        release = self.release

        engine: None | str
        engine = self.engine

        line: int | None
        line = self.line

        rank: None | str
        rank = self.rank

        gpu: int | None
        gpu = self.gpu

        num_failures = self.num_failures

        read = []
        for read_item_data in self.read:
            read_item = read_item_data.to_dict()
            read.append(read_item)

        balance = self.balance.to_dict()

        processes = []
        for processes_item_data in self.processes:
            processes_item = processes_item_data.to_dict()
            processes.append(processes_item)

        place: dict[str, Any] | None
        if isinstance(self.place, PlaceAnswer):
            place = self.place.to_dict()
        else:
            place = self.place

        growth: dict[str, Any] | None
        if isinstance(self.growth, GrowthAnswer):
            growth = self.growth.to_dict()
        else:
            growth = self.growth

        causes = []
        for causes_item_data in self.causes:
            causes_item = causes_item_data.to_dict()
            causes.append(causes_item)

        changes = []
        for changes_item_data in self.changes:
            changes_item = changes_item_data.to_dict()
            changes.append(changes_item)

        prediction: dict[str, Any] | None
        if isinstance(self.prediction, PredictionAnswer):
            prediction = self.prediction.to_dict()
        else:
            prediction = self.prediction

        notes = self.notes

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "summary": summary,
                "memory": memory,
                "speaker": speaker,
                "release": release,
                "engine": engine,
                "line": line,
                "rank": rank,
                "gpu": gpu,
                "num_failures": num_failures,
                "read": read,
                "balance": balance,
                "processes": processes,
                "place": place,
                "growth": growth,
                "causes": causes,
                "changes": changes,
                "prediction": prediction,
                "notes": notes,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.balance_answer import BalanceAnswer  # noqa: PLC0415
        from ..models.cause_answer import CauseAnswer  # noqa: PLC0415
        from ..models.failure_change_answer import FailureChangeAnswer  # noqa: PLC0415
        from ..models.growth_answer import GrowthAnswer  # noqa: PLC0415
        from ..models.place_answer import PlaceAnswer  # noqa: PLC0415
        from ..models.prediction_answer import PredictionAnswer  # noqa: PLC0415
        from ..models.process_answer import ProcessAnswer  # noqa: PLC0415
        from ..models.read_number_answer import ReadNumberAnswer  # noqa: PLC0415

        d = dict(src_dict)
        summary = d.pop("summary")

        memory = check_failed_memory(d.pop("memory"))

        speaker = check_failure_speaker(d.pop("speaker"))

        def _parse_release(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        release = _parse_release(d.pop("release"))

        def _parse_engine(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        engine = _parse_engine(d.pop("engine"))

        def _parse_line(data: object) -> int | None:
            if data is None:
                return data
            return cast(int | None, data)

        line = _parse_line(d.pop("line"))

        def _parse_rank(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        rank = _parse_rank(d.pop("rank"))

        def _parse_gpu(data: object) -> int | None:
            if data is None:
                return data
            return cast(int | None, data)

        gpu = _parse_gpu(d.pop("gpu"))

        num_failures = d.pop("num_failures")

        read = []
        _read = d.pop("read")
        for read_item_data in _read:
            read_item = ReadNumberAnswer.from_dict(read_item_data)

            read.append(read_item)

        balance = BalanceAnswer.from_dict(d.pop("balance"))

        processes = []
        _processes = d.pop("processes")
        for processes_item_data in _processes:
            processes_item = ProcessAnswer.from_dict(processes_item_data)

            processes.append(processes_item)

        def _parse_place(data: object) -> None | PlaceAnswer:
            if data is None:
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                place_type_0 = PlaceAnswer.from_dict(data)

                return place_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(None | PlaceAnswer, data)

        place = _parse_place(d.pop("place"))

        def _parse_growth(data: object) -> GrowthAnswer | None:
            if data is None:
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                growth_type_0 = GrowthAnswer.from_dict(data)

                return growth_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(GrowthAnswer | None, data)

        growth = _parse_growth(d.pop("growth"))

        causes = []
        _causes = d.pop("causes")
        for causes_item_data in _causes:
            causes_item = CauseAnswer.from_dict(causes_item_data)

            causes.append(causes_item)

        changes = []
        _changes = d.pop("changes")
        for changes_item_data in _changes:
            changes_item = FailureChangeAnswer.from_dict(changes_item_data)

            changes.append(changes_item)

        def _parse_prediction(data: object) -> None | PredictionAnswer:
            if data is None:
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                prediction_type_0 = PredictionAnswer.from_dict(data)

                return prediction_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(None | PredictionAnswer, data)

        prediction = _parse_prediction(d.pop("prediction"))

        notes = cast(list[str], d.pop("notes"))

        explain_answer = cls(
            summary=summary,
            memory=memory,
            speaker=speaker,
            release=release,
            engine=engine,
            line=line,
            rank=rank,
            gpu=gpu,
            num_failures=num_failures,
            read=read,
            balance=balance,
            processes=processes,
            place=place,
            growth=growth,
            causes=causes,
            changes=changes,
            prediction=prediction,
            notes=notes,
        )

        explain_answer.additional_properties = d
        return explain_answer

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
