"""A serving replica on transformers: load, prefill of the prompts, decode with the full cache."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module

from service.estimator.backends.transformers.release import Release, release_of
from service.estimator.memory.answer.assemble import Draft
from service.estimator.memory.answer.explain import serving_components
from service.estimator.memory.image_inputs import image_warnings, images_of
from service.estimator.memory.kv_cache import (
    counter_bytes,
    decoding_bytes,
    held_bytes,
    kv_bytes_per_token,
    prefilled_bytes,
    recurrent_bytes,
    static_tokens,
)
from service.estimator.memory.model_limits import attention_warnings
from service.estimator.memory.phase_peaks import Moment, all_corrected
from service.estimator.model.architecture import Architecture
from service.estimator.model.families.speculative import draft_of, guessed_tokens
from service.estimator.model.quantization.loading import LEFT_EXPERTS, as_loaded, in_release, leaves_experts
from service.estimator.model.quantization.weights import scheme_of, weight_bytes
from service.estimator.model.weights.packing import packed_bytes
from service.estimator.model.weights.scheme import Packing, Scheme
from service.estimator.passes.recorder import Highs, ServingPass, batch_decides
from service.estimator.tape import sizes
from service.estimator.tape.ledger import Category, Point, Section, highest_of
from service.estimator.tape.ops.kv_cache_update import Store
from service.estimator.values.corrections import Corrections
from service.estimator.values.device import Device
from service.estimator.values.dtypes import DType
from service.estimator.values.layout import Layout
from service.estimator.values.result import Instant, Serving
from service.estimator.values.workload import Attention, Cache, Quantization, ServeWorkload

Recorder = Callable[[Architecture, ServingPass], Highs]

_ROWS_OF_WHOLE_WEIGHTS = {
    Packing.BLOCKS_4BIT: 2,
    Packing.INT8_ROWS: 1,
    Packing.FP8: 1,
    Packing.AWQ: 1024,
}
"""From how many rows on a product has more in memory than codes: bitsandbytes' ``gemv_4bit`` is for one row, AutoAWQ's kernel
for fewer than ``FP16_MATMUL_HEURISTIC_CONDITION``; GPTQ's has a buffer of its own for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """Where a replica runs, and what was learnt about it."""

    layout: Layout
    device: Device
    corrections: Corrections | None = None


Explainer = Callable[[Architecture, ServeWorkload, Host, Recorder], Draft]


def explain(model: Architecture, workload: ServeWorkload, host: Host, record: Recorder) -> Draft:
    """Return the answer of one replica, with what was measured added to its instants."""
    if not model.shifts_labels:
        encoding: Explainer = import_module("service.estimator.backends.transformers.encoder_serving").explain_encoding
        return encoding(model, workload, host, record)
    workload = beamed(workload)
    release = release_of(workload.engine_version)
    scheme = in_release(scheme_of(workload.quantization, model), workload.engine_version)
    highs = record(model, serving_pass(model, workload, release, scheme, ranks=host.layout.tensor_parallel))
    beside = drafting(workload, release)
    parts = _held(model, workload, highs, release, scheme)
    for name, of in parts.items():
        for part, size in beside.items():
            of[part] = of.get(part, 0) + (size if part == "weights" or name != "load" else 0)
    cache, states = held_bytes(model, workload) + beside["kv_cache"], recurrent_bytes(model, workload)
    tokens = workload.num_sequences * (workload.prompt_tokens + workload.output_tokens)
    walked = [Moment(name=name, allocated_bytes=sum(of.values()), parts=of) for name, of in parts.items()]
    moments = all_corrected(walked, host.corrections, tokens)
    peak = max(moments, key=lambda moment: moment.allocated_bytes)
    return Draft(
        num_gpus=host.layout.num_gpus,
        # Replicas never talk to each other.
        linked_gpus=host.layout.num_gpus // host.layout.data_parallel,
        instants=tuple(Instant(moment.name, moment.allocated_bytes, moment.parts) for moment in moments),
        peak=Instant(peak.name, peak.allocated_bytes),
        steady_bytes=parts["load"]["weights"] + cache + states,
        components=partial(serving_components, model, workload, peak.parts),
        approximate=model.spec.approximate,
        kind="inference",
        allocator=workload.allocator,
        warnings=(
            *attention_warnings(model, workload.attention),
            *image_warnings(model, workload),
            *((LEFT_EXPERTS,) if leaves_experts(model, scheme) else ()),
        ),
        serving=Serving(
            kv_bytes_per_token=kv_bytes_per_token(model, workload),
            kv_cache_bytes=cache + states,
            required_bytes=peak.allocated_bytes,
            budget_bytes=host.device.usable_bytes,
        ),
    )


def _held(
    model: Architecture, workload: ServeWorkload, highs: Highs, release: Release, scheme: Scheme | None
) -> dict[str, dict[str, int]]:
    """Return the parts of the target at each instant: loading, prefill, and decode where anything is generated."""
    weights, cache = stored_weights(model, workload, release, scheme), held_bytes(model, workload)
    prefill = _parts(highs[Section.PREFILL], workload.num_sequences, workload.prompt_tokens)
    fused = release.fuses(scheme, workload.cache)
    prefill["kv_cache"] = cache if fused else counter_bytes(model, workload) + prefill.get("kv_cache", 0)
    merging = 0
    if scheme is not None and fused and release.frees_merged:
        merging = merged_projections(model, scheme, workload.weight_dtype)
    parts = {"load": {"weights": weights, "temporaries": merging}, "prefill": prefill | {"weights": weights}}
    if not workload.output_tokens:
        return parts
    decode = _decode(model, workload, highs)
    if states := recurrent_bytes(model, workload):
        decode[Category.RECURRENT_STATE.value] = states
    if release.keeps_old_cache and workload.cache is Cache.DYNAMIC:
        decode["kv_cache"] += cache
    return parts | {"decode": decode | {"weights": weights}}


def drafting(workload: ServeWorkload, release: Release) -> dict[str, int]:
    """Return what a draft model holds beside the target: its weights, its cache, and logits of the tokens that are verified."""
    draft = draft_of(workload)
    if draft is None:
        return {"weights": 0, "kv_cache": 0}
    plain = replace(workload, quantization=Quantization.NONE)
    draft = as_loaded(draft, plain)
    verified = workload.num_sequences * guessed_tokens(workload) * draft.vocab_size * workload.weight_dtype.bytes_per_element
    return {
        "weights": stored_weights(draft, plain, release, draft.quantization),
        "kv_cache": held_bytes(draft, plain),
        "logits": verified,
    }


def beamed(workload: ServeWorkload) -> ServeWorkload:
    """Return the workload with each beam as a sequence: prompts are repeated first (``_expand_inputs_for_generation``)."""
    if workload.num_beams == 1:
        return workload
    return replace(workload, num_sequences=workload.num_sequences * workload.num_beams, num_beams=1)


def stored_weights(model: Architecture, workload: ServeWorkload, release: Release, scheme: Scheme | None) -> int:
    """Return the bytes of weights and buffers, quantised where a scheme says so."""
    dtype = workload.weight_dtype
    weights = model.weight_bytes(dtype) if scheme is None else weight_bytes(model, scheme, dtype).total
    if scheme is not None and release.fuses(scheme, workload.cache):
        kept = 0 if release.frees_merged else merged_projections(model, scheme, dtype)
        return weights + model.buffer_bytes_in(dtype) + kept
    return weights + model.buffer_bytes_in(dtype) + release.table_bytes(model, dtype) + _dequantising_buffer(model, scheme)


def merged_projections(model: Architecture, scheme: Scheme, dtype: DType) -> int:
    """Return the bytes of one projection for query, key and value beside the three that it was made of (AutoAWQ 0.1)."""
    layers = (
        (layer, count)
        for block, count in model.blocks
        for layer in block.linears()
        if layer.target in {"q_proj", "k_proj", "v_proj"}
    )
    return sum(packed_bytes(one.out_features, one.in_features, scheme, dtype).total * count for one, count in layers)


def _dequantising_buffer(model: Architecture, scheme: Scheme | None) -> int:
    """Return the bytes of the buffer that ExLlama's kernels make the largest weight whole in (auto_gptq 0.7, ``temp_dq``)."""
    if scheme is None or scheme.packing is not Packing.GPTQ:
        return 0
    sizes_of = (layer.in_features * layer.out_features for block, _ in model.blocks for layer in block.linears())
    return max(sizes_of, default=0) * DType.FP16.bytes_per_element


def serving_pass(
    model: Architecture, workload: ServeWorkload, release: Release, scheme: Scheme | None, *, ranks: int = 1
) -> ServingPass:
    """Return the part of a workload that decides which tensors prefill and decode of a model make."""
    window, prompt = model.spec.sliding_window, workload.prompt_tokens
    windowed = window is not None and prompt + workload.output_tokens >= window
    eager = workload.attention is Attention.EAGER or model.only_eager or model.writes_out_attention
    made = workload.cache is Cache.STATIC and not release.fuses(scheme, workload.cache)
    static = window is not None and made and static_tokens(workload) >= window >= prompt
    return ServingPass(
        dtype=workload.weight_dtype,
        attention=workload.attention,
        store=Store(
            kind=workload.cache,
            length=static_tokens(workload) if made else None,
            full=window is not None and made and prompt + workload.output_tokens > window,
        ),
        prefill_window=window if window is not None and (static or prompt >= window) else None,
        prefill_static=static,
        decode_window=window if windowed else None,
        drops_prompt=window is not None and prompt >= window and workload.cache is Cache.DYNAMIC,
        reads_whole=made and (eager or model.always_masked),
        prefill_scheme=scheme if _whole(scheme, workload.num_sequences * prompt) else None,
        decode_scheme=scheme if _whole(scheme, workload.num_sequences) else None,
        batched=workload.num_sequences > 1 and batch_decides(model, workload.attention, workload.weight_dtype),
        length=prompt if model.chunked else None,
        full_logits=release.full_logits,
        images=images_of(model, workload),
        ranks=ranks,
    )


def _whole(scheme: Scheme | None, rows: int) -> bool:
    """Tell whether a product of so many rows makes quantised weights whole, or quantises its input, in memory."""
    return scheme is not None and rows >= _ROWS_OF_WHOLE_WEIGHTS.get(scheme.packing, rows + 1)


def _decode(model: Architecture, workload: ServeWorkload, highs: Highs) -> dict[str, int]:
    """Return the parts of the worse of two decode steps: the last one, or the first one after a prompt beyond the window.

    The first one begins with the whole prompt in the layers with a window, and drops it layer by layer.
    """
    total = workload.prompt_tokens + workload.output_tokens
    last = _parts(highs[Section.DECODE], workload.num_sequences, total)
    last["kv_cache"] = decoding_bytes(model, workload) + last.get("kv_cache", 0)
    if Section.FIRST_DECODE not in highs:
        return last
    first = _parts(highs[Section.FIRST_DECODE], workload.num_sequences, workload.prompt_tokens + 1)
    first["kv_cache"] = prefilled_bytes(model, workload) + first.get("kv_cache", 0)
    return max(last, first, key=lambda parts: sum(parts.values()))


def _parts(points: tuple[Point, ...], num_sequences: int, tokens: int) -> dict[str, int]:
    values = sizes.monomials(num_sequences, tokens)
    return highest_of(points, values).parts_at(values)
