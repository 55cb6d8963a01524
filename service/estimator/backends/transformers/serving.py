"""Serving replica on transformers: load, prefill, and decode with the full cache."""

from dataclasses import replace
from functools import lru_cache, partial
from operator import attrgetter

from service.estimator.backends.pass_cache import PassCache
from service.estimator.backends.transformers import recorded_family
from service.estimator.backends.transformers.components import build_serving_components
from service.estimator.backends.transformers.generation import (
    add_held_inputs,
    build_generation,
    expand_beams,
)
from service.estimator.backends.transformers.release import TransformersRelease, resolve_release
from service.estimator.backends.transformers.serving_replay import Replica, replay_replica
from service.estimator.backends.transformers.stored_weights import (
    count_stored_weight_bytes,
    count_untied_head_bytes,
    merged_projection_bytes,
)
from service.estimator.memory.answer.partial_estimate import PartialEstimate
from service.estimator.memory.image_inputs import list_image_warnings, resolve_images
from service.estimator.memory.kv_cache import (
    CacheBytes,
    count_cache_bytes,
    count_cached_tokens,
    count_static_tokens,
)
from service.estimator.memory.model_limits import list_attention_warnings, resolve_row_padding
from service.estimator.memory.phase_peaks import PhasePeak, correct_phase_peaks
from service.estimator.memory.question import ServeQuestion
from service.estimator.model.architecture import Architecture
from service.estimator.model.families.speculative import count_draft_tokens, get_draft_model
from service.estimator.model.quantization.loading import (
    LEFT_EXPERTS,
    adapt_to_release,
    as_loaded,
    has_unquantised_experts,
)
from service.estimator.model.quantization.weights import select_scheme
from service.estimator.model.weights.scheme import Packing, Scheme
from service.estimator.passes.config import (
    Generation,
    PeakCandidates,
    ServingPass,
    is_batch_dependent,
)
from service.estimator.passes.serving import record_serving
from service.estimator.tape import sizes
from service.estimator.tape.ledger import Category, Point, Section, find_highest_point
from service.estimator.tape.ops.kv_cache_update import CacheState
from service.estimator.values.result import Instant, Serving
from service.estimator.values.workload import (
    Attention,
    Cache,
    Quantization,
    ServeWorkload,
)

_MIN_ROWS_MATERIALIZED = {
    Packing.BLOCKS_4BIT: 2,
    Packing.INT8_ROWS: 1,
    Packing.FP8: 1,
    Packing.AWQ: 1024,
}
"""From how many rows on a product has more in memory than codes: bitsandbytes' ``gemv_4bit`` is for
one row, AutoAWQ's kernel for fewer than ``FP16_MATMUL_HEURISTIC_CONDITION``; GPTQ's has a buffer of
its own for it.
"""


def explain(question: ServeQuestion, cache: PassCache) -> PartialEstimate:
    """Return the partial estimate of a decoder's replica.

    Corrections that were measured are added to its instants.
    """
    model, workload = question.model, expand_beams(question.workload)
    layout, caches = question.layout, count_cache_bytes(model, workload)
    release = resolve_release(workload.engine_version)
    scheme = adapt_to_release(select_scheme(workload.quantization, model), workload.engine_version)
    config = build_serving_pass(
        model,
        workload,
        release,
        scheme,
        ranks=layout.tensor_parallel,
        generation=build_generation(question.workload),
    )
    candidates = cache.get_recording(model, config, record_serving)
    parts = _collect_phase_parts(model, workload, candidates, caches, release, scheme)
    add_held_inputs(model, parts, question.workload)
    draft_parts = _add_draft(parts, count_draft_bytes(workload, release))
    cache_bytes = caches.final + caches.recurrent + draft_parts["kv_cache"]
    tokens = workload.num_sequences * (workload.prompt_tokens + workload.output_tokens)
    analytic = [_make_peak(name, of) for name, of in parts.items()]
    peaks = correct_phase_peaks(analytic, question.corrections, tokens)
    peak, highest = (max(moments, key=_get_bytes) for moments in (peaks, analytic))
    return PartialEstimate(
        num_gpus=layout.num_gpus,
        # Replicas never talk to each other.
        linked_gpus=layout.num_gpus // layout.data_parallel,
        instants=tuple(Instant(phase.name, phase.allocated_bytes, phase.parts) for phase in peaks),
        peak=Instant(peak.name, peak.allocated_bytes),
        steady_bytes=parts["load"]["weights"] + cache_bytes,
        components=lru_cache(1)(partial(build_serving_components, model, workload, peak.parts)),
        approximate=model.spec.approximate,
        kind="inference",
        family=recorded_family.get_served_family(model, workload, scheme),
        near_family=recorded_family.get_near_served_family(model, workload, scheme),
        allocator=workload.allocator,
        replayed=replay_replica(
            Replica(
                question=question,
                config=config,
                release=release,
                scheme=scheme,
                weight_bytes=parts["load"]["weights"],
            ),
            highest.allocated_bytes,
            cache,
        ),
        warnings=_list_warnings(model, workload, scheme),
        serving=Serving(
            kv_bytes_per_token=caches.per_token,
            kv_cache_bytes=cache_bytes,
            required_bytes=peak.allocated_bytes,
            budget_bytes=question.device.usable_bytes,
        ),
    )


_get_bytes = attrgetter("allocated_bytes")


def _make_peak(name: str, parts: dict[str, int]) -> PhasePeak:
    return PhasePeak(name=name, allocated_bytes=sum(parts.values()), parts=parts)


def _list_warnings(
    model: Architecture, workload: ServeWorkload, scheme: Scheme | None
) -> tuple[str, ...]:
    return (
        *list_attention_warnings(model, workload.attention),
        *list_image_warnings(model, workload),
        *((LEFT_EXPERTS,) if has_unquantised_experts(model, scheme) else ()),
    )


def _add_draft(parts: dict[str, dict[str, int]], draft_parts: dict[str, int]) -> dict[str, int]:
    """Add a draft model's parts to those of each instant.

    At load it has weights alone.
    """
    for name, of in parts.items():
        for part, size in draft_parts.items():
            of[part] = of.get(part, 0) + (size if part == "weights" or name != "load" else 0)
    return draft_parts


def _collect_phase_parts(
    model: Architecture,
    workload: ServeWorkload,
    candidates: PeakCandidates,
    caches: CacheBytes,
    release: TransformersRelease,
    scheme: Scheme | None,
) -> dict[str, dict[str, int]]:
    """Return the parts of the target model at each instant.

    The instants are loading, prefill, and decode where anything is generated.
    """
    weights = count_stored_weight_bytes(model, workload, release, scheme)
    prefill = _sum_parts(
        candidates[Section.PREFILL], workload.num_sequences, workload.prompt_tokens
    )
    fused = release.has_fused_awq(scheme, workload.cache)
    prefill["kv_cache"] = caches.final if fused else caches.counters + prefill.get("kv_cache", 0)
    spare_bytes = count_untied_head_bytes(model, release, scheme, workload.weight_dtype)
    if scheme is not None and fused and release.frees_fused_projections:
        merged_bytes = merged_projection_bytes(model, scheme, workload.weight_dtype)
        spare_bytes = max(spare_bytes, merged_bytes)
    parts = {
        "load": {"weights": weights, "temporaries": spare_bytes},
        "prefill": prefill | {"weights": weights},
    }
    if count_cached_tokens(workload) == workload.prompt_tokens:
        return parts
    decode = _select_decode_parts(workload, candidates, caches)
    if caches.recurrent:
        decode[Category.RECURRENT_STATE.value] = caches.recurrent
    if release.keeps_old_cache and workload.cache is Cache.DYNAMIC:
        decode["kv_cache"] += caches.final
    return parts | {"decode": decode | {"weights": weights}}


def count_draft_bytes(workload: ServeWorkload, release: TransformersRelease) -> dict[str, int]:
    """Return the bytes of a draft model beside the target.

    They are its weights, its cache, and logits of the tokens that are verified.
    """
    draft = get_draft_model(workload.speculative)
    if draft is None:
        return {"weights": 0, "kv_cache": 0}
    plain = replace(workload, quantization=Quantization.NONE)
    draft = as_loaded(draft, plain)
    verified_bytes = (
        workload.num_sequences
        * count_draft_tokens(workload.speculative)
        * draft.vocab_size
        * workload.weight_dtype.bytes_per_element
    )
    return {
        "weights": count_stored_weight_bytes(draft, plain, release, draft.quantization),
        "kv_cache": count_cache_bytes(draft, plain).final,
        "logits": verified_bytes,
    }


def build_serving_pass(
    model: Architecture,
    workload: ServeWorkload,
    release: TransformersRelease,
    scheme: Scheme | None,
    *,
    ranks: int = 1,
    generation: Generation | None = None,
) -> ServingPass:
    """Return the pass that decides the tensors of prefill and decode."""
    window, prompt = model.spec.sliding_window, workload.prompt_tokens
    kernel, dtype = workload.attention, workload.weight_dtype
    total = count_cached_tokens(workload)
    windowed = window is not None and total >= window
    eager = kernel is Attention.EAGER or model.only_eager or model.writes_out_attention
    is_preallocated = workload.cache is Cache.STATIC and not release.has_fused_awq(
        scheme, workload.cache
    )
    static = (
        window is not None and is_preallocated and count_static_tokens(workload) >= window >= prompt
    )
    is_masked = window is not None and (static or prompt >= window)
    return ServingPass(
        dtype=dtype,
        attention=kernel,
        cache=CacheState(
            kind=workload.cache,
            length=count_static_tokens(workload) if is_preallocated else None,
            full=window is not None and is_preallocated and total > window,
        ),
        prefill_window=window if is_masked else None,
        row_padding=resolve_row_padding(model, kernel, dtype, prompt, masked=is_masked),
        prefill_static=static,
        decode_window=window if windowed else None,
        drops_prompt=window is not None and prompt >= window and workload.cache is Cache.DYNAMIC,
        reads_full_cache=is_preallocated and (eager or model.always_masked),
        prefill_scheme=scheme
        if _is_materialized(scheme, workload.num_sequences * prompt)
        else None,
        decode_scheme=scheme if _is_materialized(scheme, workload.num_sequences) else None,
        batched=workload.num_sequences > 1 and is_batch_dependent(model, kernel, dtype),
        length=prompt if model.chunked else None,
        total_length=total if model.chunked else None,
        full_logits=release.full_logits,
        images=resolve_images(model, workload),
        ranks=ranks,
        generation=generation,
    )


def _is_materialized(scheme: Scheme | None, rows: int) -> bool:
    """Return whether a product materialises more than codes in memory.

    With so many rows it makes quantised weights whole, or quantises its input.
    """
    return scheme is not None and rows >= _MIN_ROWS_MATERIALIZED.get(scheme.packing, rows + 1)


def _select_decode_parts(
    workload: ServeWorkload, candidates: PeakCandidates, caches: CacheBytes
) -> dict[str, int]:
    """Return the parts of the worse of two decode steps.

    They are the last one, and the first one after a prompt beyond the window. The first one begins
    with the whole prompt in the layers with a window, and drops it layer by layer.
    """
    total = count_cached_tokens(workload)
    last = _sum_parts(candidates[Section.DECODE], workload.num_sequences, total)
    last["kv_cache"] = caches.decode + last.get("kv_cache", 0)
    if Section.FIRST_DECODE not in candidates:
        return last
    first = _sum_parts(
        candidates[Section.FIRST_DECODE], workload.num_sequences, workload.prompt_tokens + 1
    )
    first["kv_cache"] = caches.prefill + first.get("kv_cache", 0)
    return max(last, first, key=lambda parts: sum(parts.values()))


def _sum_parts(points: tuple[Point, ...], num_sequences: int, tokens: int) -> dict[str, int]:
    values = sizes.evaluate_monomials(num_sequences, tokens)
    return find_highest_point(points, values).evaluate_parts(values)
