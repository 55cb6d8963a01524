"""Sequences that are an image, a video or audio."""

from service.estimator.model.architecture import Architecture
from service.estimator.model.recorded.inputs import InputKind, RecordedInput
from service.estimator.model.recorded.narrowing import is_recorded

_CONVOLUTION = "aten.convolution.default"
_WORKSPACE = (
    "convolutions: what cuDNN's plan takes while one runs is not counted (torch 2.13 "
    "ATen/native/cudnn/Conv_v8.cpp), about its input, weight and output once more at most"
)


def get_reads(model: Architecture) -> RecordedInput | None:
    """Return the items that a model reads, None for tokens."""
    return model.recorded.reads if is_recorded(model) else None


def list_item_warnings(model: Architecture) -> tuple[str, ...]:
    """Return warnings about memory that kernels take beside tensors."""
    if not is_recorded(model) or not model.recorded.runs_operator(_CONVOLUTION):
        return ()
    return (_WORKSPACE,)


def list_item_notes(model: Architecture, length: int) -> tuple[str, ...]:
    """Return what a sequence is, and which size of it is answered."""
    reads = get_reads(model)
    if reads is None:
        return ()
    if reads.kind is InputKind.AUDIO:
        steps = f"{length:,} steps of {reads.step_s * 1000:g} ms: its tokens are these steps"
        kind = steps if reads.grows else "its one length"
        return (f"a sequence = {reads.describe(1, length)}, {kind}",)
    size = f"{reads.width} x {reads.height} pixels"
    frames = f" of {reads.frames} frames" if reads.frames else ""
    note = f"a sequence = one {reads.kind}{frames}, which the model takes as {size}"
    return (f"{note}: its tokens are {reads.kind}s",)
