"""Decoded requests as questions that the use cases answer.

Names are resolved and defaults filled; nothing is guessed.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from msgspec import Struct, UnsetType

from service.base.errors import InvalidRequestError
from service.catalog.gpus import resolve_device
from service.catalog.spellings import read_spelling
from service.contract.schemas.fields import get_or_none
from service.contract.schemas.fit import (
    CUSTOM_GPU,
    FitRequest,
    GpuByMemory,
    GpuReference,
    InlineModel,
    ModelReference,
)
from service.contract.schemas.workload import WorkloadRequest
from service.contract.to_question.heads import put_head_in_source
from service.contract.to_question.layouts import read_layout
from service.contract.to_question.workloads import read_workload
from service.estimator.model.architecture import Architecture
from service.estimator.model.families.synthetic import build_synthetic_architecture
from service.estimator.model.quantization.loading import adopt_cache_format, as_loaded
from service.estimator.values.device import UNKNOWN_VENDOR, Device
from service.estimator.values.errors import EstimatorError, InvalidInputError
from service.estimator.values.layout import Layout
from service.estimator.values.workload import ServeWorkload, Workload
from service.formats.quantities import parse_bytes
from service.planner.fit.confidence import check_confidence, list_confidence_notes
from service.planner.fit.hardware import lacks_bf16, select_format
from service.planner.fit.parts import ALL_PARTS, FitPart
from service.usecases.questions.fit import FitQuestion
from service.usecases.stored_specs.model_sources import read_source

INLINE = ("hf_config", "architecture", "num_parameters", "name")
_REMEDIES = frozenset({FitPart.REMEDIES})


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedModel:
    """Model that a request named or brought along.

    ``name`` and ``revision`` are ``None`` when it came inline. ``checkpoints`` are ids on the
    Hugging Face hub of weights of this shape, none where only the caller knows them.
    """

    architecture: Architecture
    name: str | None = None
    revision: int | None = None
    hf_config: Mapping[str, object] | None = None
    checkpoints: tuple[str, ...] = ()
    version: str | None = None
    """Id of the revision, by which caches tell that the model has changed."""
    has_other_head: bool = False
    """Whether a request gave the named model another head: its files are not those of the name."""
    notes: tuple[str, ...] = ()
    """How the request's text was read, where it is no name of a model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadPiece:
    """Requested workload, its defaults and the fields that were set."""

    workload: Workload
    defaults: tuple[str, ...]
    set_fields: frozenset[str]

    @property
    def serves(self) -> bool:
        """Whether the workload serves a model."""
        return isinstance(self.workload, ServeWorkload)


@dataclass(frozen=True, slots=True, kw_only=True)
class FitPieces:
    """Everything that a fit request says, but of which model."""

    workload: WorkloadPiece
    layout: Layout
    layout_defaults: tuple[str, ...]
    device: Device
    confidence: float
    parts: frozenset[FitPart]


def read_fit(request: FitRequest, model: ResolvedModel) -> FitQuestion:
    """Return the question of a fit request."""
    workload = read_workload_piece(request.workload)
    layout, layout_defaults = read_layout(request.layout, serves=workload.serves)
    check_confidence(request.confidence, workload.workload)
    pieces = FitPieces(
        workload=workload,
        layout=layout,
        layout_defaults=layout_defaults,
        device=read_device(request.gpu),
        confidence=request.confidence,
        parts=read_parts(request.include, remedies=request.remedies),
    )
    return build_question(pieces, model)


def read_workload_piece(request: WorkloadRequest) -> WorkloadPiece:
    """Return the workload of a request with its assumptions."""
    workload, defaults = read_workload(request)
    return WorkloadPiece(
        workload=workload, defaults=tuple(defaults), set_fields=list_set_fields(request)
    )


def build_question(pieces: FitPieces, model: ResolvedModel) -> FitQuestion:
    """Return the question of a request about a model.

    On a GPU without bfloat16 the workload gets another number format.
    """
    workload, defaults = pieces.workload.workload, pieces.workload.defaults
    fixed = pieces.workload.set_fields
    if "kv_cache_dtype" not in fixed:
        workload = adopt_cache_format(model.architecture, workload)
    if lacks_bf16(pieces.device):
        workload = select_format(
            pieces.device, model.architecture, workload, pieces.layout, fixed=fixed
        )
    if workload is not pieces.workload.workload:
        defaults = tuple(restate_defaults(defaults, workload))
    return FitQuestion(
        architecture=as_loaded(model.architecture, workload),
        workload=workload,
        layout=pieces.layout,
        device=pieces.device,
        level=pieces.confidence,
        assumptions=(
            *model.notes,
            *defaults,
            *pieces.layout_defaults,
            *list_confidence_notes(pieces.confidence, workload),
        ),
        parts=pieces.parts,
    )


def read_parts(include: Iterable[FitPart] | UnsetType, *, remedies: bool) -> frozenset[FitPart]:
    """Return the parts that a request asks for, else all."""
    parts = ALL_PARTS if isinstance(include, UnsetType) else frozenset(include)
    return parts if remedies else parts - _REMEDIES


def list_set_fields(request: Struct | UnsetType) -> frozenset[str]:
    """Return the names of the fields that a request has."""
    if isinstance(request, UnsetType):
        return frozenset()
    return frozenset(
        name
        for name in request.__struct_fields__
        if not isinstance(getattr(request, name), UnsetType)
    )


def restate_defaults(defaults: Sequence[str], workload: Workload) -> list[str]:
    """Return the assumptions with the formats of a workload's GPU.

    Those replace the formats of the defaults, which that GPU does not have.
    """
    if isinstance(workload, ServeWorkload):
        formats = {
            "weight_dtype": workload.weight_dtype.value,
            "kv_cache_dtype": workload.kv_cache_dtype.value,
        }
    else:
        formats = {"precision": workload.precision.name}
    lines = {f"workload.{name}": f"workload.{name} = {value}" for name, value in formats.items()}
    return [lines.get(line.partition(" = ")[0], line) for line in defaults]


def read_device(reference: GpuReference) -> Device:
    """Return the GPU that a request names or describes."""
    if isinstance(reference, GpuByMemory):
        num_bytes = parse_bytes(reference.memory_bytes, field="gpu.memory_bytes")
        if num_bytes < 1:
            message = f"memory_bytes is {num_bytes}; a GPU has 1 byte or more"
            raise InvalidInputError(message, field="gpu.memory_bytes")
        return Device(
            name=CUSTOM_GPU, vendor=UNKNOWN_VENDOR, capacity_bytes=num_bytes, usable_bytes=num_bytes
        )
    return _get_catalogue_device(reference)


@lru_cache(512)
def _get_catalogue_device(name: str) -> Device:
    return resolve_device(name)


@contextmanager
def prefix_error_field(prefix: str) -> Iterator[None]:
    """Prefix the field of a refusal with its section.

    The section is the part of the request that the refusal is about.
    """
    try:
        yield
    except EstimatorError as error:
        error.field = f"{prefix}.{error.field}" if error.field else prefix
        raise


def resolve_reference(
    reference: ModelReference, find: Callable[[str], ResolvedModel]
) -> ResolvedModel:
    """Return the model of a request, with the head it asks for."""
    if isinstance(reference, str):
        return find(reference)
    named = get_or_none(reference.name)
    if named is None:
        return read_inline(reference)
    require_one(reference, INLINE, "model")
    model = find(named)
    source = (
        {"architecture": model.architecture.describe()}
        if model.hf_config is None
        else {"hf_config": model.hf_config}
    )
    with prefix_error_field("model"):
        changed = put_head_in_source(source, reference.head, reference.num_labels)
        if changed is source:
            return model
        architecture = read_source(changed)
    return replace(
        model,
        architecture=architecture,
        hf_config=changed.get("hf_config"),
        checkpoints=(),
        has_other_head=True,
    )


def read_inline(reference: InlineModel) -> ResolvedModel:
    """Return the model that a request brings along."""
    with prefix_error_field("model"):
        sent = put_head_in_source(
            require_one(reference, INLINE, "model"), reference.head, reference.num_labels
        )
    ((kind, value),) = sent.items()
    if kind == "num_parameters":
        return ResolvedModel(architecture=build_synthetic_architecture(value), hf_config=None)
    with prefix_error_field(f"model.{kind}"):
        architecture = read_source(sent)
    return ResolvedModel(
        architecture=architecture, hf_config=value if kind == "hf_config" else None
    )


def read_spelled(
    text: str, find: Callable[[str], ResolvedModel], *, field: str = "model"
) -> ResolvedModel:
    """Return the model that a text means which is no name.

    ``find`` resolves a name of the catalogue. Raises UnknownModelError with what would be right.
    """
    spelling = read_spelling(text, field=field)
    if spelling.entry is not None:
        return replace(find(spelling.entry.name), notes=(spelling.note,))
    assert spelling.num_parameters is not None  # noqa: S101 - a spelling is one or the other
    return ResolvedModel(
        architecture=build_synthetic_architecture(spelling.num_parameters), notes=(spelling.note,)
    )


def require_one(sent: object, names: tuple[str, ...], field: str) -> dict[str, Any]:
    """Return the one field out of ``names`` that is set.

    Refuses none and several.
    """
    values = {
        name: value for name in names if not isinstance(value := getattr(sent, name), UnsetType)
    }
    if len(values) != 1:
        message = (
            f"{field} has {', '.join(values) or 'nothing'}; it must have exactly one of "
            f"{', '.join(names)}"
        )
        raise InvalidRequestError(message, errors=[{"field": field, "message": message}])
    return values
