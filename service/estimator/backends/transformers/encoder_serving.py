"""Serving replica of a model with an encoder.

It runs one forward pass, or an encoder's pass and a decoder's steps after it.
"""

from functools import partial

from service.estimator.backends.pass_cache import PassCache
from service.estimator.memory.answer.explain import describe_scores, sort_parts
from service.estimator.memory.answer.partial_estimate import PartialEstimate
from service.estimator.memory.image_inputs import list_image_warnings, resolve_images
from service.estimator.memory.lengths import count_source_positions, count_start_tokens
from service.estimator.memory.phase_peaks import PhasePeak, correct_phase_peaks
from service.estimator.memory.question import ServeQuestion
from service.estimator.model.architecture import Architecture
from service.estimator.model.recorded.items import get_reads
from service.estimator.model.trees.encoder_decoder import EncoderDecoder
from service.estimator.passes.config import PeakCandidates, ServingPass, is_batch_dependent
from service.estimator.passes.serving import record_serving
from service.estimator.tape import sizes
from service.estimator.tape.ledger import Section, find_highest_point
from service.estimator.tape.ops.kv_cache_update import CacheState
from service.estimator.values.result import Basis, Component, Instant, Serving
from service.estimator.values.units import format_count
from service.estimator.values.workload import ServeWorkload

_REPLAYED = (
    "the model's own forward replayed operation by operation; equal to runs of transformers 5.23 "
    "on torch 2.13"
)


def explain_encoding(question: ServeQuestion, cache: PassCache) -> PartialEstimate:
    """Return the partial estimate of one replica.

    Corrections that were measured are added to its instants.
    """
    model, workload, layout = question.model, question.workload, question.layout
    candidates = cache.get_recording(model, _build_pass(model, workload), record_serving)
    weights = model.weight_bytes(workload.weight_dtype) + model.buffer_bytes_in(
        workload.weight_dtype
    )
    cache_bytes = _cache_bytes(model, workload, workload.output_tokens)
    parts: dict[str, dict[str, int]] = {
        "load": {},
        "prefill": _sum_parts(candidates, Section.PREFILL, workload),
    }
    if Section.DECODE in candidates:
        decode = _sum_parts(candidates, Section.DECODE, workload)
        before = _cache_bytes(model, workload, workload.output_tokens - 1)
        parts["decode"] = decode | {"kv_cache": before + decode.get("kv_cache", 0)}
    tokens = workload.num_sequences * (workload.prompt_tokens + workload.output_tokens)
    analytic = [
        PhasePeak(
            name=name, allocated_bytes=weights + sum(of.values()), parts=of | {"weights": weights}
        )
        for name, of in parts.items()
    ]
    peaks = correct_phase_peaks(analytic, question.corrections, tokens)
    peak = max(peaks, key=lambda moment: moment.allocated_bytes)
    return PartialEstimate(
        num_gpus=layout.num_gpus,
        linked_gpus=layout.num_gpus // layout.data_parallel,
        instants=tuple(
            Instant(moment.name, moment.allocated_bytes, moment.parts) for moment in peaks
        ),
        peak=Instant(peak.name, peak.allocated_bytes),
        steady_bytes=weights + cache_bytes,
        components=partial(_build_components, model, workload, peak.parts),
        kind="inference",
        warnings=list_image_warnings(model, workload),
        allocator=workload.allocator,
        serving=Serving(
            kv_bytes_per_token=_count_cache_elements(model)
            * workload.kv_cache_dtype.bytes_per_element,
            kv_cache_bytes=cache_bytes,
            required_bytes=peak.allocated_bytes,
            budget_bytes=question.device.usable_bytes,
        ),
    )


def _build_pass(model: Architecture, workload: ServeWorkload) -> ServingPass:
    window = model.spec.sliding_window
    return ServingPass(
        dtype=workload.weight_dtype,
        attention=workload.attention,
        cache=CacheState(kind=workload.cache),
        prefill_window=window if window is not None and workload.prompt_tokens >= window else None,
        decoder_start=count_start_tokens(model, workload),
        decoder_output=workload.output_tokens,
        images=resolve_images(model, workload),
        batched=workload.num_sequences > 1
        and is_batch_dependent(model, workload.attention, workload.weight_dtype),
        length=workload.prompt_tokens if model.chunked else None,
    )


def _sum_parts(
    candidates: PeakCandidates, section: Section, workload: ServeWorkload
) -> dict[str, int]:
    values = sizes.evaluate_monomials(workload.num_sequences, workload.prompt_tokens)
    return find_highest_point(candidates[section], values).evaluate_parts(values)


def _count_cache_elements(model: Architecture) -> int:
    """Return the key and value elements of one position.

    A decoder's layers keep those of their own positions and of the encoder's; one forward pass
    keeps none.
    """
    if not isinstance(model, EncoderDecoder):
        return 0
    return sum(block.cache_elements_per_token * count for block, count in model.blocks)


def _cache_bytes(model: Architecture, workload: ServeWorkload, output_tokens: int) -> int:
    """Return the bytes of both caches.

    They hold every position of the encoder, and every token of the decoder.
    """
    if not isinstance(model, EncoderDecoder):
        return 0
    positions = (
        count_source_positions(model, workload)
        + count_start_tokens(model, workload)
        + output_tokens
    )
    return (
        _count_cache_elements(model)
        * positions
        * workload.num_sequences
        * workload.kv_cache_dtype.bytes_per_element
    )


def _build_components(
    model: Architecture, workload: ServeWorkload, parts: dict[str, int]
) -> list[Component]:
    """Return the components of a serving peak."""
    batch, width = f"{workload.num_sequences} sequences", workload.weight_dtype.bytes_per_element
    source, start = count_source_positions(model, workload), count_start_tokens(model, workload)
    positions = f"({source} of the encoder + {start} + {workload.output_tokens} of the decoder)"
    formulas = {
        "weights": f"{format_count(model.parameter_counts().total)} params x {width} B",
        "kv_cache": (
            f"{batch} x {positions} x {_count_cache_elements(model)} elements x "
            f"{workload.kv_cache_dtype.bytes_per_element} B"
        ),
        "logits": describe_scores(model, batch, " on every position that the head reads"),
    }
    reads = get_reads(model)
    passed = f"{batch} x {source} positions through one layer"
    if reads is not None:
        passed = f"{reads.describe(workload.num_sequences, source)} through the model"
    other = f"{passed}, {workload.attention.value} attention"
    return [
        Component(name, bytes_, Basis.EXACT, formulas.get(name, other), _REPLAYED)
        for name, bytes_ in sort_parts(parts)
    ]
