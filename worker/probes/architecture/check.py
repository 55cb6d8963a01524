"""Proof of a recording against a plain pass of its model."""

from contextlib import nullcontext
from dataclasses import replace
from itertools import chain

import torch
from torch import nn
from transformers import PreTrainedModel

from service.estimator.model.architecture import Architecture
from service.estimator.model.recorded.architecture import build_recorded
from service.estimator.model.recorded.recorded_model import RecordedModel
from service.estimator.passes.config import ServingPass, TrainingPass
from service.estimator.passes.recorder import log_training
from service.estimator.passes.serving import record_serving
from service.estimator.tape.event_log import Events
from service.estimator.tape.ledger import Section, find_highest_point
from service.estimator.tape.ops.kv_cache_update import CacheState
from service.estimator.tape.programs.recorded_pass import Domain
from service.estimator.tape.sizes import evaluate, evaluate_monomials
from service.estimator.values.dtypes import DType
from service.estimator.values.workload import Attention, Cache, Checkpointing
from service.jobs.contract import FailureKind
from service.probing.refusal import Refusal
from worker.probes.architecture.extents import choose_checked
from worker.probes.architecture.listening.fake_building import forget_tensors
from worker.probes.architecture.listening.inputs import make_batch, make_inputs
from worker.probes.architecture.listening.listen import Extent, Phase, Variant
from worker.probes.attention.names import Kernel
from worker.probes.attention.trace_dispatch import make_trace_context
from worker.probes.trace.known_values import report_cuda_autocast
from worker.probes.trace.recorder import StorageRecorder, record_storages

_BATCH = 4
"""Sequences of a pass that is traced and compared; nothing was fitted to it, nor to its length."""
_DTYPES = {torch.float32: DType.FP32, torch.bfloat16: DType.BF16, torch.float16: DType.FP16}
_LIMIT = 1000
"""Part of the bytes that a recording may miss; what it misses is said with it."""
_PROVED = frozenset({Phase.STEP, Phase.FORWARD})
_LOSS_GRADIENT = 4
"""Bytes of the gradient that backward begins with, which its caller holds until it ends."""


def check_recording(
    recorded: RecordedModel, fake: PreTrainedModel, name: str, variant: Variant, domain: Domain
) -> int:
    """Return the bytes by which a recording's peak misses a plain pass.

    A pass with a cache is not run by itself; tests hold it against families written by hand.
    Raises Refusal where it misses more than a part in ``_LIMIT``.
    """
    if variant.phase not in _PROVED:
        return 0
    batch = 1 if domain.max_batch == 1 else _BATCH
    extent = Extent(batch=batch, length=choose_checked(domain))
    traced, gradients = trace_pass(fake, variant, extent)
    model = build_recorded(recorded)
    peak = compute_peak(model, variant, extent)
    difference = abs(traced - peak)
    if difference > traced // _LIMIT:
        message = (
            f"the recording in {name} takes {peak} bytes where the model itself takes {traced}: "
            "it is not kept"
        )
        raise Refusal(FailureKind.UNSUPPORTED, message)
    if variant.phase is Phase.STEP:
        _check_gradients(name, sum_gradients(model, variant, extent), gradients)
    return difference if difference > _LOSS_GRADIENT else 0


def _check_gradients(name: str, recorded: int, traced: int) -> None:
    """Refuse a recording whose backward does not reach all weights.

    Where its chain breaks (in-place sums on views, RoCBert), small batches alone show it.
    """
    if abs(recorded - traced) > traced // _LIMIT:
        message = (
            f"the recording in {name} has gradients of {recorded} bytes where the model itself has "
            f"{traced}: it is not kept"
        )
        raise Refusal(FailureKind.UNSUPPORTED, message)


def check_weights(recorded: RecordedModel, model: nn.Module) -> None:
    """Refuse a recording that counts weights otherwise than the model has them.

    Layers that share their weights (Zamba) would each count their own.
    """
    counted = build_recorded(recorded).counts.total
    total = sum(weight.numel() for weight in model.parameters())
    if counted != total:
        message = (
            f"the layers of this model share weights: {total:,} parameters, and {counted:,} where "
            "each had its own"
        )
        raise Refusal(FailureKind.UNSUPPORTED, message)


def holds_for_one(
    recorded: RecordedModel, fake: PreTrainedModel, variant: Variant, domain: Domain
) -> bool:
    """Return whether one sequence alone takes what the recording of several says."""
    if variant.phase not in _PROVED:
        return True
    extent = Extent(batch=1, length=choose_checked(domain))
    traced = trace_peak(fake, variant, extent)
    peak = compute_peak(build_recorded(recorded), variant, extent)
    return abs(traced - peak) <= _LOSS_GRADIENT


def trace_peak(model: PreTrainedModel, variant: Variant, extent: Extent) -> int:
    """Return a fake model's highest live bytes beside its weights."""
    return trace_pass(model, variant, extent)[0]


def trace_pass(model: PreTrainedModel, variant: Variant, extent: Extent) -> tuple[int, int]:
    """Return a fake model's highest live bytes, and those of its gradients.

    Storages are counted as they come and go: neither names nor a graph are looked at.
    """
    kernels = make_trace_context(variant.attention)
    kernel = Kernel.EAGER if variant.attention is Attention.EAGER else Kernel.FLASH
    autocast = (
        nullcontext() if variant.autocast is None else torch.autocast("cpu", variant.autocast)
    )
    forget_tensors(model)
    if variant.phase is Phase.FORWARD:
        return _trace_forward(model, variant, extent), 0
    with record_storages() as recorder:
        batch = make_batch(model, extent.batch, extent.length)
        with report_cuda_autocast(variant.autocast), kernels(kernel), autocast:
            outputs = model(**batch)
        outputs.loss.backward()
        gradients = sum(w.grad.nbytes for w in model.parameters() if w.grad is not None)
        model.zero_grad(set_to_none=True)
    exclude_weights(recorder, model)
    return max(recorder.ledger.live()), gradients


def exclude_weights(recorder: StorageRecorder, model: nn.Module) -> None:
    """Count no bytes for weights and buffers.

    They were there before the pass. One that is viewed otherwise than by the common operators looks
    like a new storage (the weight of a convolution that is squeezed).
    """
    allocations = recorder.ledger.allocations
    for tensor in chain(model.parameters(), model.buffers()):
        place = recorder.find_place(tensor)
        if place is not None:
            allocations[place] = replace(allocations[place], num_bytes=0)


def _trace_forward(model: PreTrainedModel, variant: Variant, extent: Extent) -> int:
    """Return the highest live bytes of one pass without labels."""
    model.train(mode=False)
    kernels = make_trace_context(variant.attention)
    with record_storages() as recorder, torch.no_grad(), kernels(Kernel.FLASH):
        inputs = make_inputs(model, extent.batch, extent.length)
        outputs = model(**inputs)
        del outputs
    exclude_weights(recorder, model)
    return max(recorder.ledger.live())


def _compute_forward(model: Architecture, variant: Variant, extent: Extent) -> int:
    """Return the highest live bytes of a recorded pass without labels."""
    config = ServingPass(
        dtype=_DTYPES[variant.dtype],
        attention=variant.attention,
        cache=CacheState(kind=Cache.DYNAMIC),
        batched=extent.batch > 1,
        length=extent.length,
    )
    points = record_serving(model, config)[Section.PREFILL]
    values = evaluate_monomials(extent.batch, extent.length)
    return sum(find_highest_point(points, values).evaluate_parts(values).values())


def compute_peak(
    model: Architecture, variant: Variant, extent: Extent, *, window_reached: bool = False
) -> int:
    """Return the highest live bytes of a pass beside the weights."""
    if variant.phase is Phase.FORWARD:
        return _compute_forward(model, variant, extent)
    events = _log_step(model, variant, extent, window_reached=window_reached)
    sizes = _evaluate_sizes(events, extent)
    live = highest = 0
    for event in events.order:
        live += sizes[events.kinds[event]] if event >= 0 else -sizes[events.kinds[~event]]
        highest = max(highest, live)
    return highest


def sum_gradients(model: Architecture, variant: Variant, extent: Extent) -> int:
    """Return the bytes of gradients at the end of a recorded step."""
    events = _log_step(model, variant, extent)
    sizes = _evaluate_sizes(events, extent)
    return sum(sizes[events.kinds[storage]] for storage in events.gradients)


def _evaluate_sizes(events: Events, extent: Extent) -> list[int]:
    values = evaluate_monomials(extent.batch, extent.length)
    return [evaluate(size, values) for size in events.sizes]


def _log_step(
    model: Architecture, variant: Variant, extent: Extent, *, window_reached: bool = False
) -> Events:
    """Return the allocations and releases of a recorded step."""
    return log_training(
        model,
        TrainingPass(
            param_dtype=_DTYPES[variant.dtype],
            autocast=None if variant.autocast is None else _DTYPES[variant.autocast],
            trains_all=not variant.frozen,
            lora=None,
            checkpointing=Checkpointing.NONE,
            attention=variant.attention,
            keeps_logits=True,
            accumulating=False,
            batched=extent.batch > 1,
            window_reached=window_reached,
            length=extent.length,
            on_gpu=True,
            buffer_dtype=DType.FP32 if variant.cast else None,
        ),
    )
