"""Real prefill and decode of a Hugging Face model with its own cache objects, with marks for the recorder."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import signature

import torch
from transformers import DynamicCache, PreTrainedModel, StaticCache

from service.estimator.workload import Cache, ServeWorkload
from worker.probes.assemble import assemble
from worker.probes.cuda_choices import Choices, cuda_choices
from worker.probes.kernels import Kernel
from worker.probes.marks import Marks, mark_layers
from worker.probes.recorder import mark

Tell = Callable[[str], None]


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
    _forward(server, _tokens(server, num_sequences, prompt_tokens), cache, "prefill")
    if not output_tokens:
        mark("done")
        return ()
    tell(f"decode at {prompt_tokens + output_tokens} tokens")
    mark("growing")
    if output_tokens > 1:
        _forward(server, _tokens(server, num_sequences, output_tokens - 1), cache, "growing")
    mark("decode")
    began = time.perf_counter()
    _forward(server, _tokens(server, num_sequences, 1), cache, "decode")
    seconds = time.perf_counter() - began
    mark("done")
    return (seconds,)


def _forward(server: Server, tokens: torch.Tensor, cache: DynamicCache | StaticCache, phase: str) -> None:
    """Run the model on more tokens; what keeps a state and no keys calls its cache by another name."""
    names = signature(server.model.forward).parameters
    given = {"cache_params" if "cache_params" in names else "past_key_values": cache}
    with server.choices(server.kernel), server.marks.during(phase):
        server.model(input_ids=tokens, use_cache=True, logits_to_keep=1, **given)


def _make_cache(server: Server, max_tokens: int) -> DynamicCache | StaticCache:
    config = server.model.config
    if server.workload.cache is Cache.STATIC:
        return StaticCache(config=config, max_cache_len=max(max_tokens, server.workload.max_model_len or 0))
    return DynamicCache(config=config)


def _tokens(server: Server, num_sequences: int, num_tokens: int) -> torch.Tensor:
    vocab_size = server.model.config.get_text_config().vocab_size
    drawn = torch.randint(0, vocab_size, (num_sequences, num_tokens), generator=torch.Generator().manual_seed(0))
    return drawn.to(server.model.device)
