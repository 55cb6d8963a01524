"""Items of a batch, each answered as POST /v1/fit would.

Equal items, and equal pieces of them, are worked out once.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from service.api.http.decoding import check_free_values, read_envelope, read_json
from service.api.http.dependencies import Dependencies
from service.api.http.problems import build_refusal, report_fault
from service.api.http.responses import encode
from service.api.resources.resolving import resolve_model
from service.base.errors import ServiceError
from service.base.typed import get_decoder
from service.contract.schemas.batch import QuestionParts
from service.contract.schemas.fit import FitRequest, GpuReference, ModelReference
from service.contract.schemas.workload import LayoutRequest, WorkloadRequest
from service.contract.to_answer.fits import build_fit_answer
from service.contract.to_question.fits import (
    ResolvedModel,
    read_device,
    read_fit,
    read_parts,
)
from service.contract.to_question.workloads import read_layout, read_workload
from service.estimator.model.architecture import Architecture
from service.estimator.values.device import Device
from service.estimator.values.errors import EstimatorError
from service.estimator.values.layout import Layout
from service.estimator.values.workload import ServeWorkload, Workload
from service.planner.fit.confidence import check_confidence, list_confidence_notes
from service.planner.fit.evaluator import Evaluator
from service.planner.fit.fit import add_remedies, assess_fit
from service.planner.fit.hardware import lacks_bf16
from service.planner.fit.parts import NO_PARTS, FitPart
from service.usecases.questions.fit import make_calibrated_evaluator

T = TypeVar("T")
_Question = tuple[Evaluator, Workload, Layout, tuple[str, ...], frozenset[FitPart]]
"""What is asked, which defaults it uses, and which parts of the answer are wanted."""
_MODEL: "msgspec.json.Decoder[ModelReference]" = get_decoder(ModelReference)
_WORKLOAD: "msgspec.json.Decoder[WorkloadRequest]" = get_decoder(WorkloadRequest)
_GPU: "msgspec.json.Decoder[GpuReference]" = get_decoder(GpuReference)
_LAYOUT: "msgspec.json.Decoder[LayoutRequest]" = get_decoder(LayoutRequest)


@dataclass(frozen=True, slots=True)
class _Fit:
    """Encoded answer with its verdict."""

    verdict: str
    body: bytes


class BatchItems:
    """Answers items one by one and caches what they share.

    ``request_id`` is where the log finds faults.
    """

    def __init__(self, deps: Dependencies, *, full: bool, path: str, request_id: str) -> None:
        """Start with empty caches."""
        self._deps, self._path, self._request_id = deps, path, request_id
        self._full = full
        self._answers: dict[bytes, _Fit | dict[str, object]] = {}
        self._models: dict[bytes, ResolvedModel] = {}
        self._workloads: dict[bytes, tuple[Workload, list[str]]] = {}
        self._layouts: tuple[dict[bytes, tuple[Layout, tuple[str, ...]]], ...] = ({}, {})
        self._devices: dict[bytes, Device] = {}
        self._evaluators: dict[tuple[bytes, bytes, float], Evaluator] = {}
        self.verdicts: Counter[str] = Counter()

    def answer(self, index: int, item: bytes) -> bytes:
        """Return one item's answer as JSON.

        A refusal is a problem document, and so is a fault of the service.
        """
        instance = f"{self._path}#/items/{index}"
        answer = self._answers.get(item)
        if answer is None:
            answer = self._answers[item] = self._answer_new(item, instance)
        if isinstance(answer, dict):
            return msgspec.json.encode({"problem": answer | {"instance": instance}})
        self.verdicts[answer.verdict] += 1
        return answer.body

    def _answer_new(self, item: bytes, instance: str) -> _Fit | dict[str, object]:
        try:
            return self._answer_item(item)
        except (ServiceError, EstimatorError) as error:
            return build_refusal(error, instance=instance)
        except Exception as error:  # noqa: BLE001 - one item's fault must not lose the answers to all others
            return report_fault(
                error, instance=instance, method="POST", request_id=self._request_id
            )

    def _answer_item(self, item: bytes) -> _Fit:
        evaluator, workload, layout, assumptions, wanted = self._read_question(item)
        parts = wanted if self._full else NO_PARTS
        report = assess_fit(evaluator, workload, layout, parts)
        if FitPart.REMEDIES in parts:
            report = add_remedies(report, evaluator, workload, layout)
        answer = build_fit_answer(report, assumptions=assumptions, parts=parts)
        return _Fit(report.verdict.value, encode(answer))

    def _read_question(self, item: bytes) -> _Question:
        """Return the question of an item.

        One whose pieces cannot be read is read in full, which refuses it in its own words.
        """
        try:
            check_free_values(item)
            pieces = read_envelope(item, QuestionParts)
            workload, workload_defaults = self._read_workload(pieces.workload)
            layout, layout_defaults = self._read_layout(
                pieces.layout, serves=isinstance(workload, ServeWorkload)
            )
            check_confidence(pieces.confidence, workload)
            notes = (
                *workload_defaults,
                *layout_defaults,
                *list_confidence_notes(pieces.confidence, workload),
            )
            evaluator = self._get_evaluator(pieces)
        except (
            ServiceError,
            EstimatorError,
            msgspec.MsgspecError,
            UnicodeDecodeError,
            RecursionError,
        ):
            return self._read_full(item)
        if lacks_bf16(evaluator.device):
            return self._read_full(item)  # what nobody says is another format there
        return (
            evaluator,
            workload,
            layout,
            notes,
            read_parts(pieces.include, remedies=pieces.remedies),
        )

    def _read_full(self, item: bytes) -> _Question:
        request = read_json(item, FitRequest)
        question = read_fit(request, resolve_model(self._deps.specs, request.model))
        evaluator = self._make_evaluator(question.architecture, question.device, question.level)
        return evaluator, question.workload, question.layout, question.assumptions, question.parts

    def _get_evaluator(self, pieces: QuestionParts) -> Evaluator:
        cache_key = bytes(pieces.model), bytes(pieces.gpu), pieces.confidence
        evaluator = self._evaluators.get(cache_key)
        if evaluator is None:
            model = _get_or_read(self._models, cache_key[0], self._read_model)
            device = _get_or_read(
                self._devices, cache_key[1], lambda raw: read_device(_GPU.decode(raw))
            )
            evaluator = self._evaluators[cache_key] = self._make_evaluator(
                model.architecture, device, pieces.confidence
            )
        return evaluator

    def _read_model(self, raw: bytes) -> ResolvedModel:
        return resolve_model(self._deps.specs, _MODEL.decode(raw))

    def _read_workload(self, piece: msgspec.Raw) -> tuple[Workload, list[str]]:
        return _get_or_read(
            self._workloads, bytes(piece), lambda raw: read_workload(_WORKLOAD.decode(raw))
        )

    def _read_layout(self, piece: msgspec.Raw, *, serves: bool) -> tuple[Layout, tuple[str, ...]]:
        return _get_or_read(
            self._layouts[serves],
            bytes(piece),
            lambda raw: read_layout(_LAYOUT.decode(raw), serves=serves),
        )

    def _make_evaluator(
        self, architecture: Architecture, device: Device, level: float
    ) -> Evaluator:
        find = self._deps.corrections.find
        return make_calibrated_evaluator(
            architecture, device, plans=self._deps.plans, find_corrections=find, level=level
        )


def _get_or_read(cache: dict[bytes, T], raw: bytes, read: Callable[[bytes], T]) -> T:
    value = cache.get(raw)
    if value is None:
        value = cache[raw] = read(raw)
    return value
