"""Prefill and decode of a Hugging Face model with its own cache.

The recorder's marks divide them.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import DynamicCache, EncoderDecoderCache, PreTrainedModel, StaticCache

from service.estimator.values.generation import Client, Sampling
from service.estimator.values.workload import Cache, ServeWorkload
from worker.probes.attention.dispatch import KernelContext, use_cuda_kernels
from worker.probes.attention.names import Kernel
from worker.probes.run.assemble import assemble
from worker.probes.run.generating import MAX_STEPS, StepWatch, generate, get_cache_name
from worker.probes.run.marks import Marks, mark_layers
from worker.probes.run.recorder import mark

OnStep = Callable[[str], None]
KvCache = DynamicCache | StaticCache | EncoderDecoderCache
ModelInputs = dict[str, Any]
"""Arguments of a forward pass by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A model that serves; its cache lives as long as one run."""

    model: PreTrainedModel
    workload: ServeWorkload
    kernel: Kernel
    marks: Marks
    kernel_context: KernelContext = use_cuda_kernels

    @property
    def generates(self) -> bool:
        """Whether ``generate`` calls the model, which has no encoder."""
        model = self.model
        return (
            self.workload.client is Client.GENERATE
            and model.can_generate()
            and not model.config.is_encoder_decoder
        )


def make_server(
    config: Mapping[str, object],
    workload: ServeWorkload,
    *,
    layers: Sequence[int],
    kernel: Kernel,
    kernel_context: KernelContext = use_cuda_kernels,
    device: str = "cpu",
) -> Server:
    """Build the model that is served.

    ``kernel_context`` holds every pass to a kernel.
    """
    model = assemble(config, workload, layers=layers, kernel=kernel, device=device).hf_model
    model.train(mode=False)
    marks = mark_layers(model, len(layers))
    return Server(
        model=model, workload=workload, kernel=kernel, marks=marks, kernel_context=kernel_context
    )


@torch.no_grad()
def serve(
    server: Server, *, num_sequences: int, prompt_tokens: int, output_tokens: int, on_step: OnStep
) -> tuple[float, ...]:
    """Prefill the prompt, then decode the last token with a full cache.

    Returns the seconds of the decode step. The cache is brought to its last length in one pass:
    what it holds there is the same as after one token at a time. Gradients are off as ``generate``
    turns them off. ``inference_mode`` would show the recorder as one what runs in parts
    (``matmul``, the math kernel), and hide what these allocate.
    """
    if server.generates:
        return _generate(server, num_sequences, prompt_tokens, output_tokens, on_step)
    cache = _make_cache(server, prompt_tokens + output_tokens)
    on_step(f"prefill of {num_sequences} x {prompt_tokens} tokens")
    mark("prefill")
    run_prompt = _encode if server.model.config.is_encoder_decoder else _prefill
    inputs, _source = run_prompt(server, _draw_tokens(server, num_sequences, prompt_tokens), cache)
    if not output_tokens:
        mark("done")
        return ()
    on_step(f"decode at {prompt_tokens + output_tokens} tokens")
    mark("growing")
    if output_tokens > 1:
        _forward(
            server,
            inputs | _make_decoder_inputs(server, num_sequences, output_tokens - 1),
            cache,
            "growing",
        )
    mark("decode")
    began = time.perf_counter()
    _forward(server, inputs | _make_decoder_inputs(server, num_sequences, 1), cache, "decode")
    seconds = time.perf_counter() - began
    mark("done")
    return (seconds,)


def _generate(
    server: Server, num_sequences: int, prompt_tokens: int, output_tokens: int, on_step: OnStep
) -> tuple[float, ...]:
    """Generate a token after the prompt, then the last two.

    Returns the seconds of the last step. The last token's keys and values are never made, so that
    the cache holds one token less than there are. A second token is generated in the same call.
    """
    num_decoded = max(output_tokens - 1, 0)
    cache = _make_cache(server, prompt_tokens + num_decoded)
    on_step(f"prefill of {num_sequences} x {prompt_tokens} tokens")
    mark("prefill")
    prompt = _draw_tokens(server, num_sequences, prompt_tokens)
    if num_decoded < MAX_STEPS:
        return _run_steps(server, prompt, cache, 1 + num_decoded, "prefill")
    _run_steps(server, prompt, cache, 1, "prefill", is_last=False)
    del prompt
    on_step(f"decode at {prompt_tokens + num_decoded} tokens")
    mark("growing")
    grown = num_decoded - MAX_STEPS
    if grown:
        more = {"input_ids": _draw_tokens(server, num_sequences, grown)}
        _forward(server, more, cache, "growing")
    ids = _draw_tokens(server, num_sequences, prompt_tokens + grown + 1)
    return _run_steps(server, ids, cache, MAX_STEPS, "growing")


def _run_steps(
    server: Server,
    ids: torch.Tensor,
    cache: KvCache,
    num_steps: int,
    phase: str,
    *,
    is_last: bool = True,
) -> tuple[float, ...]:
    """Take steps of ``generate``, the first in a phase.

    The last ones end the run. Returns the seconds of the second, which is marked as decode.
    """
    began: list[float] = []

    def begin_last() -> None:
        mark("decode")
        server.marks.phase = "decode"
        server.marks.reach("embedding")
        began.append(time.perf_counter())

    with server.kernel_context(server.kernel), server.marks.during(phase):
        generate(
            server.model,
            ids,
            cache,
            StepWatch(num_steps, begin_last),
            samples=server.workload.sampling is Sampling.SAMPLE,
            decodes=phase != "prefill",
        )
    if is_last:
        mark("done")
    return tuple(time.perf_counter() - start for start in began)


def _prefill(
    server: Server, prompt: torch.Tensor, cache: KvCache
) -> tuple[ModelInputs, ModelInputs]:
    """Run the prompt; only the cache is used afterwards."""
    _forward(server, {"input_ids": prompt}, cache, "prefill")
    return {}, {}


def _encode(
    server: Server, prompt: torch.Tensor, cache: KvCache
) -> tuple[ModelInputs, ModelInputs]:
    """Run the encoder, then the decoder on its first token.

    Returns the inputs of later passes, and the encoder's inputs, which must stay alive.
    ``generate`` hands on what was encoded, and holds what it was encoded from until its end. An
    encoder that takes audio reads all that it has positions for, and the prompt is the decoder's
    where it is not as long.
    """
    num_sequences, num_tokens = prompt.shape
    source, first = {"input_ids": prompt}, 1
    if server.model.main_input_name == "input_features":
        config = server.model.config
        shape = (num_sequences, config.num_mel_bins, 2 * config.max_source_positions)
        source = {
            "input_features": torch.zeros(
                shape, dtype=server.model.dtype, device=server.model.device
            ),
        }
        first = 1 if num_tokens == config.max_source_positions else num_tokens
    with server.kernel_context(server.kernel), server.marks.during("prefill"):
        outputs = server.model.get_encoder()(**source)
        _call(
            server,
            {"encoder_outputs": outputs} | _make_decoder_inputs(server, num_sequences, first),
            cache,
        )
    return {"encoder_outputs": outputs}, source


def _make_decoder_inputs(server: Server, num_sequences: int, num_tokens: int) -> ModelInputs:
    """Make more tokens, under the decoder's name for its input."""
    name = "decoder_input_ids" if server.model.config.is_encoder_decoder else "input_ids"
    return {name: _draw_tokens(server, num_sequences, num_tokens)}


def _forward(server: Server, inputs: ModelInputs, cache: KvCache, phase: str) -> None:
    with server.kernel_context(server.kernel), server.marks.during(phase):
        _call(server, inputs, cache)


def _call(server: Server, inputs: ModelInputs, cache: KvCache) -> None:
    """Run the model on more tokens, with its cache.

    A model that keeps a state and no keys calls its cache by another name, and an encoder has none.
    """
    if not server.model.can_generate():
        server.model(**inputs)
        return
    cache_inputs = {get_cache_name(server.model): cache}
    logits_inputs = {} if server.model.config.is_encoder_decoder else {"logits_to_keep": 1}
    server.model(use_cache=True, **inputs, **cache_inputs, **logits_inputs)


def _make_cache(server: Server, max_tokens: int) -> KvCache:
    config = server.model.config
    if config.is_encoder_decoder:
        return EncoderDecoderCache(
            DynamicCache(), DynamicCache()
        )  # T5's config says how deep its encoder is
    if server.workload.cache is Cache.STATIC:
        return StaticCache(
            config=config, max_cache_len=max(max_tokens, server.workload.max_model_len or 0)
        )
    return DynamicCache(config=config)


def _draw_tokens(server: Server, num_sequences: int, num_tokens: int) -> torch.Tensor:
    vocab_size = server.model.config.get_text_config().vocab_size
    ids = torch.randint(
        0, vocab_size, (num_sequences, num_tokens), generator=torch.Generator().manual_seed(0)
    )
    return ids.to(server.model.device)
