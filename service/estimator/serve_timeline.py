"""A serving replica on transformers: load, prefill of the prompts, decode with the full cache."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from service.estimator.answer import Draft
from service.estimator.architecture import Architecture
from service.estimator.corrections import Corrections
from service.estimator.device import Device
from service.estimator.explain import serving_components
from service.estimator.kv_cache import (
    counter_bytes,
    decoding_bytes,
    held_bytes,
    kv_bytes_per_token,
    prefilled_bytes,
    static_tokens,
)
from service.estimator.layout import Layout
from service.estimator.moments import Moment, corrected
from service.estimator.passes import Highs, ServingPass
from service.estimator.result import Instant, Serving
from service.estimator.support.model_limits import attention_warnings
from service.estimator.tape import sizes
from service.estimator.tape.ledger import Point, Section, highest_of
from service.estimator.workload import Attention, Cache, ServeWorkload

Recorder = Callable[[Architecture, ServingPass], Highs]


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """Where a replica runs, and what was learnt about it."""

    layout: Layout
    device: Device
    corrections: Corrections | None = None


def explain(model: Architecture, workload: ServeWorkload, host: Host, record: Recorder) -> Draft:
    """Return the answer of one replica, with what was measured added to its instants."""
    highs = record(model, serving_pass(model, workload))
    weights = model.weight_bytes(workload.weight_dtype) + model.buffer_bytes_in(workload.weight_dtype)
    cache = held_bytes(model, workload)
    prefill = _parts(highs[Section.PREFILL], workload.num_sequences, workload.prompt_tokens)
    counted = counter_bytes(model, workload) + prefill.get("kv_cache", 0)
    prefill["kv_cache"] = cache if workload.cache is Cache.STATIC else counted
    decode = _decode(model, workload, highs)
    parts = {"load": {"weights": weights}, "prefill": prefill | {"weights": weights}}
    if workload.output_tokens:
        parts["decode"] = decode | {"weights": weights}
    tokens = workload.num_sequences * (workload.prompt_tokens + workload.output_tokens)
    moments = [
        corrected(Moment(name=name, allocated_bytes=sum(of.values()), parts=of), host.corrections, tokens)
        for name, of in parts.items()
    ]
    peak = max(moments, key=lambda moment: moment.allocated_bytes)
    return Draft(
        num_gpus=host.layout.num_gpus,
        # Replicas never talk to each other.
        linked_gpus=host.layout.num_gpus // host.layout.data_parallel,
        instants=tuple(Instant(moment.name, moment.allocated_bytes) for moment in moments),
        peak=Instant(peak.name, peak.allocated_bytes),
        steady_bytes=weights + cache,
        components=partial(serving_components, model, workload, peak.parts),
        approximate=model.spec.approximate,
        allocator=workload.allocator,
        warnings=attention_warnings(model, workload.attention),
        serving=Serving(
            kv_bytes_per_token=kv_bytes_per_token(model, workload),
            kv_cache_bytes=cache,
            required_bytes=peak.allocated_bytes,
            budget_bytes=host.device.usable_bytes,
        ),
    )


def serving_pass(model: Architecture, workload: ServeWorkload) -> ServingPass:
    """Return the part of a workload that decides which tensors prefill and decode of a model make."""
    window, prompt = model.spec.sliding_window, workload.prompt_tokens
    windowed = window is not None and prompt + workload.output_tokens >= window
    eager = workload.attention is Attention.EAGER or model.only_eager
    static = window is not None and workload.cache is Cache.STATIC and static_tokens(workload) >= window >= prompt
    return ServingPass(
        dtype=workload.weight_dtype,
        attention=workload.attention,
        cache=workload.cache,
        prefill_window=window if window is not None and (static or prompt >= window) else None,
        prefill_static=static,
        decode_window=window if windowed else None,
        drops_prompt=window is not None and prompt >= window and workload.cache is Cache.DYNAMIC,
        static_length=static_tokens(workload) if workload.cache is Cache.STATIC and eager else None,
    )


def _decode(model: Architecture, workload: ServeWorkload, highs: Highs) -> dict[str, int]:
    """Return the parts of the worse of two decode steps: the last one, or the first one after a prompt beyond the window.

    The first one begins with the whole prompt in the layers with a window, and drops it layer by layer.
    """
    total = workload.prompt_tokens + workload.output_tokens
    last = _parts(highs[Section.DECODE], workload.num_sequences, total) | {"kv_cache": decoding_bytes(model, workload)}
    if Section.FIRST_DECODE not in highs:
        return last
    first = _parts(highs[Section.FIRST_DECODE], workload.num_sequences, workload.prompt_tokens + 1)
    first["kv_cache"] = prefilled_bytes(model, workload) + first.get("kv_cache", 0)
    return max(last, first, key=lambda parts: sum(parts.values()))


def _parts(points: tuple[Point, ...], num_sequences: int, tokens: int) -> dict[str, int]:
    values = sizes.monomials(num_sequences, tokens)
    return highest_of(points, values).parts_at(values)
