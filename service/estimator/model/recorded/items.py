"""Sequences that are an image, a video or a stretch of audio, and no text."""

from dataclasses import replace
from typing import TypeVar

from service.estimator.model.architecture import Architecture
from service.estimator.model.recorded.inputs import InputKind, RecordedInput
from service.estimator.model.recorded.narrowing import is_recorded
from service.estimator.values.workload import ServeWorkload, TrainWorkload, Workload

_Any = TypeVar("_Any", bound=Workload)
_CONVOLUTION = "aten.convolution.default"
_WORKSPACE = (
    "convolutions: what cuDNN's plan takes while one runs is not counted (torch 2.13 "
    "ATen/native/cudnn/Conv_v8.cpp), about its input, weight and output once more at most"
)


def get_reads(model: Architecture) -> RecordedInput | None:
    """Return what a model reads in place of tokens, None where it reads tokens."""
    return model.recorded.reads if is_recorded(model) else None


def count_items(workload: Workload) -> dict[InputKind, int]:
    """Return how many images, videos and stretches of audio a sequence has."""
    inputs = workload.inputs
    if inputs is None:
        return {}
    parts = {
        InputKind.IMAGE: sum(item.count for item in inputs.images),
        InputKind.VIDEO: sum(item.count for item in inputs.videos),
        InputKind.AUDIO: sum(item.count for item in inputs.audio),
    }
    return {kind: number for kind, number in parts.items() if number}


def resolve_length(model: Architecture, workload: _Any) -> _Any:
    """Return a workload with the length that its item makes.

    It is 1 for an image, and for audio its steps; what the request says of tokens has no effect.
    """
    reads = get_reads(model)
    if reads is None:
        return workload
    length = 1
    if reads.grows and workload.inputs is not None and workload.inputs.audio:
        length = reads.count_steps(workload.inputs.audio[0].seconds)
    if isinstance(workload, TrainWorkload):
        return replace(workload, sequence_length=length)
    return replace(workload, prompt_tokens=length)


def list_item_notes(model: Architecture, workload: Workload) -> tuple[str, ...]:
    """Return what a sequence is, and which size of it is answered."""
    reads = get_reads(model)
    if reads is None:
        return ()
    if reads.kind is InputKind.AUDIO:
        length = workload.prompt_tokens if isinstance(workload, ServeWorkload) else 0
        length = workload.sequence_length if isinstance(workload, TrainWorkload) else length
        steps = f"{length:,} steps of {reads.step_s * 1000:g} ms: its tokens are these steps"
        kind = steps if reads.grows else "its one length"
        return (f"a sequence = {reads.describe(1, length)}, {kind}",)
    size = f"{reads.width} x {reads.height} pixels"
    frames = f" of {reads.frames} frames" if reads.frames else ""
    note = f"a sequence = one {reads.kind}{frames}, which the model takes as {size}"
    return (f"{note}: its tokens are {reads.kind}s",)


def list_item_warnings(model: Architecture) -> tuple[str, ...]:
    """Return what the kernels of such a model may take beside its tensors."""
    if not is_recorded(model) or not model.recorded.runs_operator(_CONVOLUTION):
        return ()
    return (_WORKSPACE,)
