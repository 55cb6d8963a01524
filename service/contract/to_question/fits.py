"""Decoded requests as questions that the use cases answer.

Names are resolved and defaults filled; nothing is guessed.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from msgspec import UnsetType

from service.catalog.gpus import resolve_device
from service.contract.schemas.fields import get_or_default
from service.contract.schemas.fit import CUSTOM_GPU, FitRequest, GpuByMemory, GpuReference
from service.contract.schemas.workload import WorkloadRequest
from service.contract.to_question.defaults import list_set_fields
from service.contract.to_question.layouts import read_layout
from service.contract.to_question.models import ResolvedModel
from service.contract.to_question.workloads import read_workload
from service.estimator.model.quantization.loading import adopt_cache_format, as_loaded
from service.estimator.values.classes.quick_init import init_quickly
from service.estimator.values.device import UNKNOWN_VENDOR, Device
from service.estimator.values.errors import InvalidInputError
from service.estimator.values.layout import Layout
from service.estimator.values.memo import keep_latest
from service.estimator.values.workload import ServeWorkload, Workload
from service.formats.quantities import parse_bytes
from service.planner.fit.confidence import check_confidence, list_confidence_notes
from service.planner.fit.hardware import lacks_bf16, select_format
from service.planner.fit.parts import ALL_PARTS, FitPart
from service.usecases.questions.fit import FitQuestion

_REMEDIES = frozenset({FitPart.REMEDIES})


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


@init_quickly
@dataclass(frozen=True, slots=True, kw_only=True)
class FitPieces:
    """Everything that a fit request says, but of which model."""

    workload: WorkloadPiece
    layout: Layout
    layout_defaults: tuple[str, ...]
    device: Device
    confidence: float
    parts: frozenset[FitPart]
    cluster: str = ""


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
        cluster=get_or_default(request.cluster, ""),
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
        cluster=pieces.cluster,
    )


def read_parts(include: Iterable[FitPart] | UnsetType, *, remedies: bool) -> frozenset[FitPart]:
    """Return the parts that a request asks for, else all."""
    parts = ALL_PARTS if isinstance(include, UnsetType) else frozenset(include)
    return parts if remedies else parts - _REMEDIES


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


@keep_latest(512)
def _get_catalogue_device(name: str) -> Device:
    return resolve_device(name)
