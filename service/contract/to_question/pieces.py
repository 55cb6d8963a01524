"""Fit questions in pieces: equal pieces of many questions are read once.

Questions that follow each other differ in little: a page moves one slider, a sweep asks of every
GPU. So workload, layout and GPU are read by their bytes, and what was read is kept.
"""

from collections.abc import Callable
from dataclasses import fields
from functools import partial
from operator import attrgetter
from typing import Any, TypeVar

import msgspec
from msgspec import UnsetType
from msgspec.structs import replace

from service.base.errors import ServiceError
from service.base.typed import get_decoder
from service.contract.schemas.fields import get_or_default
from service.contract.schemas.fit import FitEnvelope, GpuReference, ModelReference
from service.contract.schemas.layouts import LayoutRequest
from service.contract.schemas.serving import ServeRequest
from service.contract.schemas.workload import WorkloadRequest
from service.contract.to_question.fits import (
    FitPieces,
    WorkloadPiece,
    read_device,
    read_parts,
    read_workload_piece,
)
from service.contract.to_question.layouts import read_layout
from service.estimator.values.device import Device
from service.estimator.values.errors import EstimatorError
from service.estimator.values.layout import Layout
from service.estimator.values.memo import keep_latest
from service.estimator.values.workload import ServeWorkload
from service.planner.fit.confidence import check_confidence

T = TypeVar("T")

UNREADABLE = (
    ServiceError,
    EstimatorError,
    msgspec.MsgspecError,
    UnicodeDecodeError,
    RecursionError,
)
"""What a piece may raise that cannot be read; the whole question says what is wrong with it."""
MAX_PIECES = 1024
MAX_PIECE_BYTES = 1024
"""Longer ones are read each time, so that what is kept is bounded by bytes as well."""
_FIELDS = tuple(field.name for field in fields(ServeWorkload))
_ENVELOPE: "msgspec.json.Decoder[FitEnvelope]" = get_decoder(FitEnvelope)
_MODEL: "msgspec.json.Decoder[ModelReference]" = get_decoder(ModelReference)
_WORKLOAD: "msgspec.json.Decoder[WorkloadRequest]" = get_decoder(WorkloadRequest)
_GPU: "msgspec.json.Decoder[GpuReference]" = get_decoder(GpuReference)
_LAYOUT: "msgspec.json.Decoder[LayoutRequest]" = get_decoder(LayoutRequest)


def brings_model(body: bytes) -> bool:
    """Return whether a model may be brought along, which no schema bounds."""
    # Members one by one: a generator takes longer than they do.
    return (
        b'"hf_config"' in body
        or b'"architecture"' in body
        or b'"gguf"' in body
        or b'"safetensors_' in body
    )


def _may_repeat_members(body: bytes) -> bool:
    """Return whether a member may come twice.

    An escape could hide that one does.
    """
    return (
        b"\\" in body
        or body.count(b'"model"') > 1
        or body.count(b'"workload"') > 1
        or body.count(b'"gpu"') > 1
        or body.count(b'"layout"') > 1
    )


def decode_pieces(body: bytes) -> tuple[bytes, FitPieces]:
    """Split a question into its encoded model and the rest.

    Raises one of ``UNREADABLE`` where the question is to be read as a whole: of a member that comes
    twice the decoder of the whole checks both.
    """
    if _may_repeat_members(body):
        message = "a member may come twice"
        raise msgspec.ValidationError(message)
    envelope = _ENVELOPE.decode(body)
    workload = _get_workload(bytes(envelope.workload))
    get_layout = _get_serving_layout if workload.serves else _get_training_layout
    layout, layout_defaults = get_layout(bytes(envelope.layout))
    check_confidence(envelope.confidence, workload.workload)
    pieces = FitPieces(
        workload=workload,
        layout=layout,
        layout_defaults=layout_defaults,
        device=_get_device(bytes(envelope.gpu)),
        confidence=envelope.confidence,
        parts=read_parts(envelope.include, remedies=envelope.remedies),
        cluster=get_or_default(envelope.cluster, ""),
    )
    return bytes(envelope.model), pieces


def _keep_short(read: Callable[[bytes], T]) -> Callable[[bytes], T]:
    """Cache the values read from short pieces."""
    kept = keep_latest(MAX_PIECES)(read)

    def get(piece: bytes) -> T:
        return kept(piece) if len(piece) <= MAX_PIECE_BYTES else read(piece)

    return get


def _read_workload(piece: bytes) -> WorkloadPiece:
    request = _WORKLOAD.decode(piece)
    if not isinstance(request, ServeRequest) or len(piece) > MAX_PIECE_BYTES:
        return read_workload_piece(request)
    if isinstance(request.prompt_tokens, UnsetType):
        return read_workload_piece(request)
    load = {"num_sequences": request.num_sequences, "prompt_tokens": request.prompt_tokens}
    if not isinstance(request.output_tokens, UnsetType):
        load["output_tokens"] = request.output_tokens
    try:
        server, values = _read_server(replace(request, **dict.fromkeys(load, 1)))
    except TypeError:  # of a request with a list, which has no hash
        return read_workload_piece(request)
    return WorkloadPiece(
        workload=ServeWorkload(**(values | load)),
        defaults=server.defaults,
        set_fields=server.set_fields,
    )


@keep_latest(MAX_PIECES)
def _read_server(request: ServeRequest) -> tuple[WorkloadPiece, dict[str, Any]]:
    """Return a server at any load, with the fields of its workload."""
    piece = read_workload_piece(request)
    return piece, dict(zip(_FIELDS, attrgetter(*_FIELDS)(piece.workload), strict=True))


def _read_layout(piece: bytes, *, serves: bool) -> tuple[Layout, tuple[str, ...]]:
    return read_layout(_LAYOUT.decode(piece), serves=serves)


def _read_device(piece: bytes) -> Device:
    return read_device(_GPU.decode(piece))


decode_model: Callable[[bytes], ModelReference] = _keep_short(_MODEL.decode)
_get_workload = _keep_short(_read_workload)
_get_training_layout = _keep_short(partial(_read_layout, serves=False))
_get_serving_layout = _keep_short(partial(_read_layout, serves=True))
_get_device = _keep_short(_read_device)
