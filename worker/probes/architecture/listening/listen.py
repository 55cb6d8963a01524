"""Forward and backward of a model on fake tensors, listened to."""

import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from transformers import DynamicCache, PreTrainedConfig, PreTrainedModel

from service.estimator.values.workload import Attention
from service.jobs.contract import FailureKind
from service.probing.refusal import Refusal
from worker.probes.architecture.listening.anchor import anchor_gradients, freeze
from worker.probes.architecture.listening.fake_building import (
    build_fake,
    cast_weights,
    forget_tensors,
)
from worker.probes.architecture.listening.inputs import make_batch, make_inputs
from worker.probes.architecture.listening.listener import Listener
from worker.probes.architecture.listening.raw_pass import RawPass, cut_last_call
from worker.probes.architecture.listening.trees import iterate_tensors
from worker.probes.attention.dispatch import use_kernel_dropout
from worker.probes.attention.names import Kernel
from worker.probes.attention.trace_dispatch import make_trace_context
from worker.probes.run.generating import MAX_STEPS, StepWatch, generate
from worker.probes.trace.known_values import (
    disable_packing_detection,
    move_in_place,
    report_cuda_autocast,
    skip_full_masks,
)


class Phase(StrEnum):
    """A training step, a prompt, or a token after it."""

    STEP = "step"
    PREFILL = "prefill"
    DECODE = "decode"
    GENERATED_PREFILL = "generate/prefill"
    """A prompt as ``generate`` hands it to the model."""
    GENERATED_DECODE = "generate/decode"
    FORWARD = "forward"
    """One pass without labels, of a model that has no cache."""


class NoLossError(Refusal):
    """A model whose class computes no loss."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """Number formats and attention of a pass, and what is trained."""

    dtype: torch.dtype
    autocast: torch.dtype | None = None
    attention: Attention = Attention.SDPA
    frozen: bool = False
    phase: Phase = Phase.STEP
    cast: bool = False
    """Whether weights alone are cast to ``dtype``, as FSDP2 gathers them; buffers stay in fp32."""

    @property
    def is_further(self) -> bool:
        """Whether a model is answered without it."""
        return self.frozen or self.autocast is not None or self.cast


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
        with (
            use_kernel_dropout(),
            disable_packing_detection(),
            skip_full_masks(),
            move_in_place(),
            FakeTensorMode(),
        ):
            model = build_fake(
                config,
                hf_config,
                dtype=torch.float32 if variant.cast else variant.dtype,
                attention="eager" if eager else "sdpa",
            )
            if variant.cast:
                cast_weights(model, variant.dtype)
            forget_tensors(model)
            if variant.frozen:
                freeze(model)
            yield model
            forget_tensors(model)
    finally:
        gc.enable()


def listen_twice(model: PreTrainedModel, variant: Variant, extent: Extent) -> Heard:
    """Listen to a pass for its names, and for its backward."""
    if variant.phase is not Phase.STEP:
        served = _SERVED[variant.phase](model, variant, extent)
        return Heard(names=served, graph=served)
    with anchor_gradients():
        return Heard(
            names=_listen(model, variant, extent, packs=True),
            graph=_listen(model, variant, extent, packs=False),
        )


def _listen(model: PreTrainedModel, variant: Variant, extent: Extent, *, packs: bool) -> RawPass:
    forget_tensors(model)
    listener = Listener(model, packs=packs)
    batch = make_batch(model, extent.batch, extent.length)
    autocast = (
        nullcontext() if variant.autocast is None else torch.autocast("cpu", variant.autocast)
    )
    with (
        report_cuda_autocast(variant.autocast),
        listener,
        listener.listen(),
        _use_kernels(variant),
        autocast,
    ):
        listener.raw.inputs = {name: listener.number(tensor) for name, tensor in batch.items()}
        outputs = model(**batch)
        loss = getattr(outputs, "loss", None)
        if loss is None:
            message = f"{type(model).__name__} of transformers computes no loss"
            raise NoLossError(FailureKind.UNSUPPORTED, message)
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


def _listen_forward(model: PreTrainedModel, variant: Variant, extent: Extent) -> RawPass:
    """Listen to a pass without labels."""
    model.train(mode=False)
    forget_tensors(model)
    inputs = make_inputs(model, extent.batch, extent.length)
    listener = Listener(model, packs=False)
    with torch.no_grad(), listener, listener.listen(), _use_kernels(variant):
        listener.raw.inputs = {name: listener.number(part) for name, part in inputs.items()}
        outputs = model(**inputs)
        listener.raw.returned = {
            str(place): listener.number(part) for place, part in enumerate(iterate_tensors(outputs))
        }
    return listener.raw


def _listen_prefill(model: PreTrainedModel, variant: Variant, extent: Extent) -> RawPass:
    """Listen to prompts in an empty cache."""
    model.train(mode=False)
    cache = DynamicCache(config=model.config)
    return _listen_tokens(model, variant, _make_tokens(model, extent, extent.length), cache)


def _listen_decode(model: PreTrainedModel, variant: Variant, extent: Extent) -> RawPass:
    """Listen to the last token of each sequence alone."""
    model.train(mode=False)
    cache = _fill_cache(model, variant, extent, extent.length - 1)
    return _listen_tokens(model, variant, _make_tokens(model, extent, 1), cache)


def _listen_tokens(
    model: PreTrainedModel, variant: Variant, ids: torch.Tensor, cache: DynamicCache
) -> RawPass:
    listener = Listener(model, packs=False)
    with torch.no_grad(), listener, listener.listen(), _use_kernels(variant):
        listener.raw.inputs = {"input_ids": listener.number(ids)}
        model(input_ids=ids, past_key_values=cache, use_cache=True, logits_to_keep=1)
    return listener.raw


def _listen_generated_prefill(model: PreTrainedModel, variant: Variant, extent: Extent) -> RawPass:
    """Listen to the prompt's pass of ``generate``."""
    model.train(mode=False)
    ids = _make_tokens(model, extent, extent.length)
    return _listen_generate(model, variant, ids, DynamicCache(config=model.config), num_steps=1)


def _listen_generated_decode(model: PreTrainedModel, variant: Variant, extent: Extent) -> RawPass:
    """Listen to the second of two steps of ``generate``."""
    model.train(mode=False)
    cache = _fill_cache(model, variant, extent, extent.length - MAX_STEPS)
    ids = _make_tokens(model, extent, extent.length - 1)
    return _listen_generate(model, variant, ids, cache, num_steps=MAX_STEPS)


def _listen_generate(
    model: PreTrainedModel,
    variant: Variant,
    ids: torch.Tensor,
    cache: DynamicCache,
    *,
    num_steps: int,
) -> RawPass:
    """Listen to ``generate``, and return its last pass."""
    listener = Listener(model, packs=False)
    watch = StepWatch(num_steps, lambda: None)
    with torch.no_grad(), listener, listener.listen(), _use_kernels(variant):
        generate(model, ids, cache, watch, samples=False, decodes=num_steps > 1)
    return cut_last_call(listener.raw)


def _make_tokens(model: PreTrainedModel, extent: Extent, count: int) -> torch.Tensor:
    return torch.zeros((extent.batch, count), dtype=torch.long, device=model.device)


def _fill_cache(
    model: PreTrainedModel, variant: Variant, extent: Extent, count: int
) -> DynamicCache:
    """Return a cache with so many tokens of each sequence."""
    cache = DynamicCache(config=model.config)
    ids = _make_tokens(model, extent, count)
    with torch.no_grad(), _use_kernels(variant):
        model(input_ids=ids, past_key_values=cache, use_cache=True, logits_to_keep=1)
    return cache


def _use_kernels(variant: Variant) -> AbstractContextManager[None]:
    kernel = Kernel.EAGER if variant.attention is Attention.EAGER else Kernel.FLASH
    return make_trace_context(variant.attention)(kernel)


_SERVED: Mapping[Phase, Callable[[PreTrainedModel, Variant, Extent], RawPass]] = {
    Phase.PREFILL: _listen_prefill,
    Phase.DECODE: _listen_decode,
    Phase.GENERATED_PREFILL: _listen_generated_prefill,
    Phase.GENERATED_DECODE: _listen_generated_decode,
    Phase.FORWARD: _listen_forward,
}
