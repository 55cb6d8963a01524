"""A serving replica of a model with an encoder: one forward pass, or an encoder's pass and a decoder's steps after it."""

from functools import partial

from service.estimator.backends.transformers.serving import Host, Recorder
from service.estimator.memory.answer.assemble import Draft
from service.estimator.memory.answer.explain import ordered
from service.estimator.memory.image_inputs import image_warnings, images_of
from service.estimator.memory.lengths import decoder_start, source_positions
from service.estimator.memory.phase_peaks import Moment, all_corrected
from service.estimator.model.architecture import Architecture
from service.estimator.model.trees.encoder_decoder import EncoderDecoder
from service.estimator.passes.recorder import Highs, ServingPass
from service.estimator.tape import sizes
from service.estimator.tape.ledger import Section, highest_of
from service.estimator.tape.ops.kv_cache_update import Store
from service.estimator.values.result import Basis, Component, Instant, Serving
from service.estimator.values.units import format_count
from service.estimator.values.workload import ServeWorkload

_REPLAYED = "the model's own forward replayed operation by operation; equal to runs of transformers 5.23 on torch 2.13"


def explain_encoding(model: Architecture, workload: ServeWorkload, host: Host, record: Recorder) -> Draft:
    """Return the answer of one replica, with what was measured added to its instants."""
    highs = record(model, _pass(model, workload))
    weights = model.weight_bytes(workload.weight_dtype) + model.buffer_bytes_in(workload.weight_dtype)
    cache = _cache_bytes(model, workload, workload.output_tokens)
    parts: dict[str, dict[str, int]] = {"load": {}, "prefill": _parts(highs, Section.PREFILL, workload)}
    if Section.DECODE in highs:
        decode = _parts(highs, Section.DECODE, workload)
        before = _cache_bytes(model, workload, workload.output_tokens - 1)
        parts["decode"] = decode | {"kv_cache": before + decode.get("kv_cache", 0)}
    tokens = workload.num_sequences * (workload.prompt_tokens + workload.output_tokens)
    walked = [
        Moment(name=name, allocated_bytes=weights + sum(of.values()), parts=of | {"weights": weights})
        for name, of in parts.items()
    ]
    moments = all_corrected(walked, host.corrections, tokens)
    peak = max(moments, key=lambda moment: moment.allocated_bytes)
    return Draft(
        num_gpus=host.layout.num_gpus,
        linked_gpus=host.layout.num_gpus // host.layout.data_parallel,
        instants=tuple(Instant(moment.name, moment.allocated_bytes, moment.parts) for moment in moments),
        peak=Instant(peak.name, peak.allocated_bytes),
        steady_bytes=weights + cache,
        components=partial(_components, model, workload, peak.parts),
        kind="inference",
        warnings=image_warnings(model, workload),
        allocator=workload.allocator,
        serving=Serving(
            kv_bytes_per_token=_elements(model) * workload.kv_cache_dtype.bytes_per_element,
            kv_cache_bytes=cache,
            required_bytes=peak.allocated_bytes,
            budget_bytes=host.device.usable_bytes,
        ),
    )


def _pass(model: Architecture, workload: ServeWorkload) -> ServingPass:
    window = model.spec.sliding_window
    return ServingPass(
        dtype=workload.weight_dtype,
        attention=workload.attention,
        store=Store(kind=workload.cache),
        prefill_window=window if window is not None and workload.prompt_tokens >= window else None,
        decoder_start=decoder_start(model, workload),
        decoder_output=workload.output_tokens,
        images=images_of(model, workload),
    )


def _parts(highs: Highs, section: Section, workload: ServeWorkload) -> dict[str, int]:
    values = sizes.monomials(workload.num_sequences, workload.prompt_tokens)
    return highest_of(highs[section], values).parts_at(values)


def _elements(model: Architecture) -> int:
    """Return the elements of key and value of one position, which a decoder's layers keep of their own and of the encoder's."""
    return sum(block.cache_elements_per_token * count for block, count in model.blocks)


def _cache_bytes(model: Architecture, workload: ServeWorkload, output_tokens: int) -> int:
    """Return what both caches hold: every position of the encoder, and every token of the decoder."""
    if not isinstance(model, EncoderDecoder):
        return 0
    positions = source_positions(model, workload) + decoder_start(model, workload) + output_tokens
    return _elements(model) * positions * workload.num_sequences * workload.kv_cache_dtype.bytes_per_element


def _components(model: Architecture, workload: ServeWorkload, parts: dict[str, int]) -> list[Component]:
    """Return the components of a serving moment."""
    batch, width = f"{workload.num_sequences} sequences", workload.weight_dtype.bytes_per_element
    source, start = source_positions(model, workload), decoder_start(model, workload)
    kept = f"({source} of the encoder + {start} + {workload.output_tokens} of the decoder)"
    formulas = {
        "weights": f"{format_count(model.parameter_counts().total)} params x {width} B",
        "kv_cache": f"{batch} x {kept} x {_elements(model)} elements x {workload.kv_cache_dtype.bytes_per_element} B",
        "logits": f"{batch} x {model.vocab_size} vocabulary on every position that the head reads",
    }
    other = f"{batch} x {source} positions through one layer, {workload.attention.value} attention"
    return [Component(name, bytes_, Basis.EXACT, formulas.get(name, other), _REPLAYED) for name, bytes_ in ordered(parts)]
