"""The items of a batch: each answered as POST /v1/fit would, equal ones and equal pieces of them once."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from service.api.http.decoding import check_free_values, read_envelope, read_json
from service.api.http.dependencies import Parts
from service.api.http.problems import fault_of, refusal_of
from service.api.http.responses import encode
from service.api.resources.resolving import resolve_model
from service.base.errors import ServiceError
from service.base.typed import decoder_of
from service.contract.schemas.batch import QuestionParts
from service.contract.schemas.fit import FitRequest, GpuReference, ModelReference
from service.contract.schemas.workload import LayoutRequest, WorkloadRequest
from service.contract.to_answer.fits import fit_answer
from service.contract.to_question.fits import ResolvedModel, read_device, read_fit
from service.contract.to_question.workloads import read_layout, read_workload
from service.estimator.model.architecture import Architecture
from service.estimator.values.device import Device
from service.estimator.values.errors import EstimatorError
from service.estimator.values.layout import Layout
from service.estimator.values.workload import ServeWorkload, Workload
from service.planner.fit.confidence import confidence_notes, require_confidence
from service.planner.fit.evaluator import Subject
from service.planner.fit.fit import FitReport, fit, judged
from service.planner.fit.hardware import lacks_bf16
from service.usecases.questions.batch import fit_numbers
from service.usecases.questions.fit import subject_of

T = TypeVar("T")
Ask = Callable[[Subject, Workload, Layout], FitReport]
_Question = tuple[Subject, Workload, Layout, tuple[str, ...], bool]
"""What is asked, which defaults it uses, and whether remedies are wanted."""
_MODEL: "msgspec.json.Decoder[ModelReference]" = decoder_of(ModelReference)
_WORKLOAD: "msgspec.json.Decoder[WorkloadRequest]" = decoder_of(WorkloadRequest)
_GPU: "msgspec.json.Decoder[GpuReference]" = decoder_of(GpuReference)
_LAYOUT: "msgspec.json.Decoder[LayoutRequest]" = decoder_of(LayoutRequest)


@dataclass(frozen=True, slots=True)
class _Fit:
    """An answer that is encoded already, and the verdict in it."""

    verdict: str
    body: bytes


class Items:
    """Answers items one by one, and remembers what they share; ``request_id`` is where the log finds faults."""

    def __init__(self, parts: Parts, *, full: bool, path: str, request_id: str) -> None:
        """Know nothing yet."""
        self._parts, self._path, self._request_id = parts, path, request_id
        self._ask: Ask = fit if full else fit_numbers
        self._ask_alone: Ask = judged if full else fit_numbers
        self._answers: dict[bytes, _Fit | dict[str, object]] = {}
        self._models: dict[bytes, ResolvedModel] = {}
        self._workloads: dict[bytes, tuple[Workload, list[str]]] = {}
        self._layouts: tuple[dict[bytes, tuple[Layout, tuple[str, ...]]], ...] = ({}, {})
        self._devices: dict[bytes, Device] = {}
        self._subjects: dict[tuple[bytes, bytes, float], Subject] = {}
        self.verdicts: Counter[str] = Counter()

    def answer(self, index: int, item: bytes) -> bytes:
        """Return one item's answer as JSON; a refusal is a problem document, and so is a fault of ours."""
        instance = f"{self._path}#/items/{index}"
        found = self._answers.get(item)
        if found is None:
            found = self._answers[item] = self._first(item, instance)
        if isinstance(found, dict):
            return msgspec.json.encode({"problem": found | {"instance": instance}})
        self.verdicts[found.verdict] += 1
        return found.body

    def _first(self, item: bytes, instance: str) -> _Fit | dict[str, object]:
        try:
            return self._answered(item)
        except (ServiceError, EstimatorError) as error:
            return refusal_of(error, instance=instance)
        except Exception as error:  # noqa: BLE001 - one item's fault must not lose the answers to all others
            return fault_of(error, instance=instance, method="POST", request_id=self._request_id)

    def _answered(self, item: bytes) -> _Fit:
        subject, workload, layout, assumptions, is_helped = self._question(item)
        report = (self._ask if is_helped else self._ask_alone)(subject, workload, layout)
        return _Fit(report.verdict.value, encode(fit_answer(report, assumptions=assumptions)))

    def _question(self, item: bytes) -> _Question:
        """Return what an item asks; one that its pieces do not explain is read as a whole, which refuses it in its words."""
        try:
            check_free_values(item)
            pieces = read_envelope(item, QuestionParts)
            workload, said = self._workload(pieces.workload)
            layout, also = self._layout(pieces.layout, serves=isinstance(workload, ServeWorkload))
            require_confidence(pieces.confidence, workload)
            notes = (*said, *also, *confidence_notes(pieces.confidence, workload))
            subject = self._subject(pieces)
        except (ServiceError, EstimatorError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return self._whole(item)
        if lacks_bf16(subject.device):
            return self._whole(item)  # what nobody says is another format there
        return subject, workload, layout, notes, pieces.remedies

    def _whole(self, item: bytes) -> _Question:
        asked = read_json(item, FitRequest)
        question = read_fit(asked, resolve_model(self._parts.specs, asked.model))
        subject = self._made(question.architecture, question.device, question.level)
        return subject, question.workload, question.layout, question.assumptions, asked.remedies

    def _subject(self, pieces: QuestionParts) -> Subject:
        names = bytes(pieces.model), bytes(pieces.gpu), pieces.confidence
        found = self._subjects.get(names)
        if found is None:
            model = _once(self._models, names[0], self._model)
            device = _once(self._devices, names[1], lambda raw: read_device(_GPU.decode(raw)))
            found = self._subjects[names] = self._made(model.architecture, device, pieces.confidence)
        return found

    def _model(self, raw: bytes) -> ResolvedModel:
        return resolve_model(self._parts.specs, _MODEL.decode(raw))

    def _workload(self, piece: msgspec.Raw) -> tuple[Workload, list[str]]:
        return _once(self._workloads, bytes(piece), lambda raw: read_workload(_WORKLOAD.decode(raw)))

    def _layout(self, piece: msgspec.Raw, *, serves: bool) -> tuple[Layout, tuple[str, ...]]:
        return _once(self._layouts[serves], bytes(piece), lambda raw: read_layout(_LAYOUT.decode(raw), serves=serves))

    def _made(self, architecture: Architecture, device: Device, level: float) -> Subject:
        find = self._parts.corrections.find
        return subject_of(architecture, device, plans=self._parts.plans, find_corrections=find, level=level)


def _once(known: dict[bytes, T], raw: bytes, read: Callable[[bytes], T]) -> T:
    found = known.get(raw)
    if found is None:
        found = known[raw] = read(raw)
    return found
