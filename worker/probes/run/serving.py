"""Real prefill and decode of a Hugging Face model with its own cache objects, with marks for the recorder."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any

import torch
from transformers import DynamicCache, EncoderDecoderCache, PreTrainedModel, StaticCache

from service.estimator.values.workload import Cache, ServeWorkload
from worker.probes.attention.dispatch import Choices, cuda_choices
from worker.probes.attention.names import Kernel
from worker.probes.run.assemble import assemble
from worker.probes.run.marks import Marks, mark_layers
from worker.probes.run.recorder import mark

Tell = Callable[[str], None]
KeptStates = DynamicCache | StaticCache | EncoderDecoderCache
Given = dict[str, Any]
"""Arguments of a forward pass by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A model that serves; its cache lives as long as one run."""

    model: PreTrainedModel
    workload: ServeWorkload
    kernel: Kernel
    marks: Marks
    choices: Choices = cuda_choices


def make_server(
    config: Mapping[str, object],
    workload: ServeWorkload,
    *,
    layers: Sequence[int],
    kernel: Kernel,
    choices: Choices = cuda_choices,
    device: str = "cpu",
) -> Server:
    """Build the model that is served; ``choices`` holds every pass to a kernel."""
    model = assemble(config, workload, layers=layers, kernel=kernel, device=device).causal
    model.train(mode=False)
    marks = mark_layers(model, len(layers))
    return Server(model=model, workload=workload, kernel=kernel, marks=marks, choices=choices)


@torch.no_grad()
def serve(server: Server, *, num_sequences: int, prompt_tokens: int, output_tokens: int, tell: Tell) -> tuple[float, ...]:
    """Prefill the prompt, then decode the last output token with a full cache; return the seconds of the decode step.

    The cache is brought to its last length in one pass: what it holds there is the same as after one token at a time.
    Gradients are off as ``generate`` turns them off. ``inference_mode`` would show the recorder whole what runs in parts
    (``matmul``, the math kernel), and hide what these allocate.
    """
    cache = _make_cache(server, prompt_tokens + output_tokens)
    tell(f"prefill of {num_sequences} x {prompt_tokens} tokens")
    mark("prefill")
    read = _encoded if server.model.config.is_encoder_decoder else _prefilled
    given, _held = read(server, _tokens(server, num_sequences, prompt_tokens), cache)
    if not output_tokens:
        mark("done")
        return ()
    tell(f"decode at {prompt_tokens + output_tokens} tokens")
    mark("growing")
    if output_tokens > 1:
        _forward(server, given | _next(server, num_sequences, output_tokens - 1), cache, "growing")
    mark("decode")
    began = time.perf_counter()
    _forward(server, given | _next(server, num_sequences, 1), cache, "decode")
    seconds = time.perf_counter() - began
    mark("done")
    return (seconds,)


def _prefilled(server: Server, prompt: torch.Tensor, cache: KeptStates) -> tuple[Given, Given]:
    """Run the prompt; nothing but the cache goes on from it."""
    _forward(server, {"input_ids": prompt}, cache, "prefill")
    return {}, {}


def _encoded(server: Server, prompt: torch.Tensor, cache: KeptStates) -> tuple[Given, Given]:
    """Run the encoder on the prompt and the decoder on its first token; return what is handed on, and what is held beside it.

    ``generate`` hands on what was encoded, and holds what it was encoded from until its end. An encoder that hears audio reads
    all that it has positions for, and the prompt is the decoder's where it is not as long.
    """
    num_sequences, num_tokens = prompt.shape
    source, first = {"input_ids": prompt}, 1
    if server.model.main_input_name == "input_features":
        config = server.model.config
        shape = (num_sequences, config.num_mel_bins, 2 * config.max_source_positions)
        source = {"input_features": torch.zeros(shape, dtype=server.model.dtype, device=server.model.device)}
        first = 1 if num_tokens == config.max_source_positions else num_tokens
    with server.choices(server.kernel), server.marks.during("prefill"):
        encoded = server.model.get_encoder()(**source)
        _call(server, {"encoder_outputs": encoded} | _next(server, num_sequences, first), cache)
    return {"encoder_outputs": encoded}, source


def _next(server: Server, num_sequences: int, num_tokens: int) -> Given:
    """Return more tokens, by the name that a decoder has for its own."""
    name = "decoder_input_ids" if server.model.config.is_encoder_decoder else "input_ids"
    return {name: _tokens(server, num_sequences, num_tokens)}


def _forward(server: Server, given: Given, cache: KeptStates, phase: str) -> None:
    with server.choices(server.kernel), server.marks.during(phase):
        _call(server, given, cache)


def _call(server: Server, given: Given, cache: KeptStates) -> None:
    """Run the model on more tokens; what keeps a state and no keys calls its cache by another name, and an encoder has none."""
    if not server.model.can_generate():
        server.model(**given)
        return
    names = signature(server.model.forward).parameters
    kept = {"cache_params" if "cache_params" in names else "past_key_values": cache}
    last = {} if server.model.config.is_encoder_decoder else {"logits_to_keep": 1}
    server.model(use_cache=True, **given, **kept, **last)


def _make_cache(server: Server, max_tokens: int) -> KeptStates:
    config = server.model.config
    if config.is_encoder_decoder:
        return EncoderDecoderCache(DynamicCache(), DynamicCache())  # T5's config says how deep its encoder is
    if server.workload.cache is Cache.STATIC:
        return StaticCache(config=config, max_cache_len=max(max_tokens, server.workload.max_model_len or 0))
    return DynamicCache(config=config)


def _tokens(server: Server, num_sequences: int, num_tokens: int) -> torch.Tensor:
    vocab_size = server.model.config.get_text_config().vocab_size
    drawn = torch.randint(0, vocab_size, (num_sequences, num_tokens), generator=torch.Generator().manual_seed(0))
    return drawn.to(server.model.device)
