from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

if TYPE_CHECKING:
    from ..models.alternative_answer import AlternativeAnswer
    from ..models.beyond_answer import BeyondAnswer
    from ..models.memory_answer import MemoryAnswer
    from ..models.pareto_answer import ParetoAnswer
    from ..models.plan_candidate import PlanCandidate
    from ..models.rejected_answer import RejectedAnswer
    from ..models.remedy_answer import RemedyAnswer
    from ..models.searched_answer import SearchedAnswer


T = TypeVar("T", bound="PlanAnswer")


@_attrs_define
class PlanAnswer:
    """The best plans; `num_gpus` is null when none is enough.

    Attributes:
        model (None | str): Name of the model; null where it came inline, or with another head.
        num_gpus (int | None): GPUs of the best plan; null where nothing is enough.
        gpu (MemoryAnswer | None | str): The kind of GPU of the best plan.
        objective (str): What the best plan is best at.
        confidence (float | None): Level of the intervals at whose upper end a plan fits; null where what is tight was
            accepted.
        candidates (list[PlanCandidate]): The best first.
        alternatives (list[AlternativeAnswer]): Per kind of GPU, in the order of the request.
        rejected (list[RejectedAnswer]): Why each smaller number fails, per kind of GPU.
        pareto (list[ParetoAnswer] | None): The front, where it was asked for.
        searched (SearchedAnswer): How much was considered, how much of it was estimated, and what needed no estimate,
            by reason.
        reason (None | str): Why nothing is enough, or why the best does not run today.
        beyond (BeyondAnswer | None): Where nothing is enough: what more GPUs would do; null where the request fixes
            their number or a cluster has no more.
        closest (None | RejectedAnswer): The closest miss.
        smallest_change (None | RemedyAnswer): The smallest change that would help.
        assumptions (list[str]): Every default that was used and not searched.
        warnings (list[str]): On a cluster: nodes that nobody has seen for an hour, and GPUs that are shared or of
            unknown memory.
    """

    model: None | str
    num_gpus: int | None
    gpu: MemoryAnswer | None | str
    objective: str
    confidence: float | None
    candidates: list[PlanCandidate]
    alternatives: list[AlternativeAnswer]
    rejected: list[RejectedAnswer]
    pareto: list[ParetoAnswer] | None
    searched: SearchedAnswer
    reason: None | str
    beyond: BeyondAnswer | None
    closest: None | RejectedAnswer
    smallest_change: None | RemedyAnswer
    assumptions: list[str]
    warnings: list[str]
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        from ..models.beyond_answer import BeyondAnswer  # noqa: PLC0415
        from ..models.memory_answer import MemoryAnswer  # noqa: PLC0415
        from ..models.rejected_answer import RejectedAnswer  # noqa: PLC0415
        from ..models.remedy_answer import RemedyAnswer  # noqa: PLC0415

        model: None | str
        model = self.model

        num_gpus: int | None
        num_gpus = self.num_gpus

        gpu: dict[str, Any] | None | str
        if isinstance(self.gpu, MemoryAnswer):
            gpu = self.gpu.to_dict()
        else:
            gpu = self.gpu

        objective = self.objective

        confidence: float | None
        confidence = self.confidence

        candidates = []
        for candidates_item_data in self.candidates:
            candidates_item = candidates_item_data.to_dict()
            candidates.append(candidates_item)

        alternatives = []
        for alternatives_item_data in self.alternatives:
            alternatives_item = alternatives_item_data.to_dict()
            alternatives.append(alternatives_item)

        rejected = []
        for rejected_item_data in self.rejected:
            rejected_item = rejected_item_data.to_dict()
            rejected.append(rejected_item)

        pareto: list[dict[str, Any]] | None
        if isinstance(self.pareto, list):
            pareto = []
            for pareto_type_0_item_data in self.pareto:
                pareto_type_0_item = pareto_type_0_item_data.to_dict()
                pareto.append(pareto_type_0_item)

        else:
            pareto = self.pareto

        searched = self.searched.to_dict()

        reason: None | str
        reason = self.reason

        beyond: dict[str, Any] | None
        if isinstance(self.beyond, BeyondAnswer):
            beyond = self.beyond.to_dict()
        else:
            beyond = self.beyond

        closest: dict[str, Any] | None
        if isinstance(self.closest, RejectedAnswer):
            closest = self.closest.to_dict()
        else:
            closest = self.closest

        smallest_change: dict[str, Any] | None
        if isinstance(self.smallest_change, RemedyAnswer):
            smallest_change = self.smallest_change.to_dict()
        else:
            smallest_change = self.smallest_change

        assumptions = self.assumptions

        warnings = self.warnings

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "model": model,
                "num_gpus": num_gpus,
                "gpu": gpu,
                "objective": objective,
                "confidence": confidence,
                "candidates": candidates,
                "alternatives": alternatives,
                "rejected": rejected,
                "pareto": pareto,
                "searched": searched,
                "reason": reason,
                "beyond": beyond,
                "closest": closest,
                "smallest_change": smallest_change,
                "assumptions": assumptions,
                "warnings": warnings,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.alternative_answer import AlternativeAnswer  # noqa: PLC0415
        from ..models.beyond_answer import BeyondAnswer  # noqa: PLC0415
        from ..models.memory_answer import MemoryAnswer  # noqa: PLC0415
        from ..models.pareto_answer import ParetoAnswer  # noqa: PLC0415
        from ..models.plan_candidate import PlanCandidate  # noqa: PLC0415
        from ..models.rejected_answer import RejectedAnswer  # noqa: PLC0415
        from ..models.remedy_answer import RemedyAnswer  # noqa: PLC0415
        from ..models.searched_answer import SearchedAnswer  # noqa: PLC0415

        d = dict(src_dict)

        def _parse_model(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        model = _parse_model(d.pop("model"))

        def _parse_num_gpus(data: object) -> int | None:
            if data is None:
                return data
            return cast(int | None, data)

        num_gpus = _parse_num_gpus(d.pop("num_gpus"))

        def _parse_gpu(data: object) -> MemoryAnswer | None | str:
            if data is None:
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                gpu_type_0_type_1 = MemoryAnswer.from_dict(data)

                return gpu_type_0_type_1
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(MemoryAnswer | None | str, data)

        gpu = _parse_gpu(d.pop("gpu"))

        objective = d.pop("objective")

        def _parse_confidence(data: object) -> float | None:
            if data is None:
                return data
            return cast(float | None, data)

        confidence = _parse_confidence(d.pop("confidence"))

        candidates = []
        _candidates = d.pop("candidates")
        for candidates_item_data in _candidates:
            candidates_item = PlanCandidate.from_dict(candidates_item_data)

            candidates.append(candidates_item)

        alternatives = []
        _alternatives = d.pop("alternatives")
        for alternatives_item_data in _alternatives:
            alternatives_item = AlternativeAnswer.from_dict(alternatives_item_data)

            alternatives.append(alternatives_item)

        rejected = []
        _rejected = d.pop("rejected")
        for rejected_item_data in _rejected:
            rejected_item = RejectedAnswer.from_dict(rejected_item_data)

            rejected.append(rejected_item)

        def _parse_pareto(data: object) -> list[ParetoAnswer] | None:
            if data is None:
                return data
            try:
                if not isinstance(data, list):
                    raise TypeError()
                pareto_type_0 = []
                _pareto_type_0 = data
                for pareto_type_0_item_data in _pareto_type_0:
                    pareto_type_0_item = ParetoAnswer.from_dict(pareto_type_0_item_data)

                    pareto_type_0.append(pareto_type_0_item)

                return pareto_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(list[ParetoAnswer] | None, data)

        pareto = _parse_pareto(d.pop("pareto"))

        searched = SearchedAnswer.from_dict(d.pop("searched"))

        def _parse_reason(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        reason = _parse_reason(d.pop("reason"))

        def _parse_beyond(data: object) -> BeyondAnswer | None:
            if data is None:
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                beyond_type_0 = BeyondAnswer.from_dict(data)

                return beyond_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(BeyondAnswer | None, data)

        beyond = _parse_beyond(d.pop("beyond"))

        def _parse_closest(data: object) -> None | RejectedAnswer:
            if data is None:
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                closest_type_0 = RejectedAnswer.from_dict(data)

                return closest_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(None | RejectedAnswer, data)

        closest = _parse_closest(d.pop("closest"))

        def _parse_smallest_change(data: object) -> None | RemedyAnswer:
            if data is None:
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                smallest_change_type_0 = RemedyAnswer.from_dict(data)

                return smallest_change_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(None | RemedyAnswer, data)

        smallest_change = _parse_smallest_change(d.pop("smallest_change"))

        assumptions = cast(list[str], d.pop("assumptions"))

        warnings = cast(list[str], d.pop("warnings"))

        plan_answer = cls(
            model=model,
            num_gpus=num_gpus,
            gpu=gpu,
            objective=objective,
            confidence=confidence,
            candidates=candidates,
            alternatives=alternatives,
            rejected=rejected,
            pareto=pareto,
            searched=searched,
            reason=reason,
            beyond=beyond,
            closest=closest,
            smallest_change=smallest_change,
            assumptions=assumptions,
            warnings=warnings,
        )

        plan_answer.additional_properties = d
        return plan_answer

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
