"""Forward and backward of a model on fake tensors, listened to."""

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from transformers import DynamicCache, PreTrainedConfig, PreTrainedModel

from service.estimator.values.workload import Attention
from worker.probes.architecture.inputs import make_batch
from worker.probes.architecture.listener import Listener
from worker.probes.architecture.model_class import build_any_model
from worker.probes.architecture.raw_pass import RawPass
from worker.probes.attention.dispatch import use_kernel_dropout
from worker.probes.attention.names import Kernel
from worker.probes.attention.trace_dispatch import make_trace_context
from worker.probes.trace.known_values import disable_packing_detection, report_cuda_autocast


class Phase(StrEnum):
    """A training step, a prompt, or a token after it."""

    STEP = "step"
    PREFILL = "prefill"
    DECODE = "decode"


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """Number formats and attention of a pass, and what is trained."""

    dtype: torch.dtype
    autocast: torch.dtype | None = None
    attention: Attention = Attention.SDPA
    frozen: bool = False
    phase: Phase = Phase.STEP


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """Sequences and tokens of each."""

    batch: int
    length: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """A pass whose graph kept nothing, and one that ran backward."""

    names: RawPass
    graph: RawPass


@contextmanager
def make_fake_model(
    config: Mapping[str, Any], hf_config: PreTrainedConfig, variant: Variant
) -> Iterator[PreTrainedModel]:
    """Build a model of fake tensors, for a block of them."""
    eager = variant.attention is Attention.EAGER
    gc.collect()
    gc.disable()
    try:
        with use_kernel_dropout(), disable_packing_detection(), FakeTensorMode():
            model = build_any_model(
                config, hf_config, dtype=variant.dtype, attention="eager" if eager else "sdpa"
            )
            if variant.frozen:
                _freeze(model)
            yield model
    finally:
        gc.enable()


def _freeze(model: PreTrainedModel) -> None:
    """Train no weight, but give the hidden states gradients."""
    model.requires_grad_(requires_grad=False)

    def require_grad(_module: object, _args: object, output: torch.Tensor) -> None:
        output.requires_grad_()

    model.get_input_embeddings().register_forward_hook(require_grad)


def listen_twice(model: PreTrainedModel, variant: Variant, extent: Extent) -> Heard:
    """Listen to a pass for its names, and for its backward."""
    if variant.phase is not Phase.STEP:
        served = _listen_serving(model, variant, extent, decoding=variant.phase is Phase.DECODE)
        return Heard(names=served, graph=served)
    return Heard(
        names=_listen(model, variant, extent, packs=True),
        graph=_listen(model, variant, extent, packs=False),
    )


def _listen(model: PreTrainedModel, variant: Variant, extent: Extent, *, packs: bool) -> RawPass:
    listener = Listener(model, packs=packs)
    batch = make_batch(model, extent.batch, extent.length)
    kernel = Kernel.EAGER if variant.attention is Attention.EAGER else Kernel.FLASH
    kernel_context = make_trace_context(variant.attention)
    autocast = (
        nullcontext() if variant.autocast is None else torch.autocast("cpu", variant.autocast)
    )
    with (
        report_cuda_autocast(variant.autocast),
        listener,
        listener.listen(),
        kernel_context(kernel),
        autocast,
    ):
        listener.raw.inputs = {name: listener.number(tensor) for name, tensor in batch.items()}
        outputs = model(**batch)
        loss = outputs.loss
        listener.raw.returned = {
            name: listener.number(part)
            for name, part in outputs.items()
            if isinstance(part, torch.Tensor)
        }
    if not packs:
        with listener:
            loss.backward()
    model.zero_grad(set_to_none=True)
    return listener.raw


def _listen_serving(
    model: PreTrainedModel, variant: Variant, extent: Extent, *, decoding: bool
) -> RawPass:
    """Listen to prompts, or to one token after each.

    All of a sequence's tokens make its length.
    """
    model.train(mode=False)
    cache = DynamicCache(config=model.config)
    shape = (extent.batch, extent.length - decoding)
    kernel = Kernel.EAGER if variant.attention is Attention.EAGER else Kernel.FLASH
    kernel_context = make_trace_context(variant.attention)
    listener = Listener(model, packs=False)
    ids = torch.zeros(shape, dtype=torch.long, device=model.device)
    with torch.no_grad(), kernel_context(kernel):
        if decoding:
            model(input_ids=ids, past_key_values=cache, use_cache=True, logits_to_keep=1)
            ids = torch.zeros((extent.batch, 1), dtype=torch.long, device=model.device)
        with listener, listener.listen():
            listener.raw.inputs = {"input_ids": listener.number(ids)}
            model(input_ids=ids, past_key_values=cache, use_cache=True, logits_to_keep=1)
    return listener.raw
