"""A serving replica on transformers: load, prefill of the prompts, decode with the full cache."""

from collections.abc import Callable

from service.estimator.answer import Draft
from service.estimator.architecture import Architecture
from service.estimator.device import Device
from service.estimator.explain import serving_components
from service.estimator.layout import Layout
from service.estimator.passes import Highs, ServingPass
from service.estimator.result import Instant, Serving
from service.estimator.tape import sizes
from service.estimator.tape.ledger import Point, Section
from service.estimator.workload import Cache, ServeWorkload

Recorder = Callable[[Architecture, ServingPass], Highs]


def explain(model: Architecture, workload: ServeWorkload, layout: Layout, device: Device, record: Recorder) -> Draft:
    """Return the answer of one replica."""
    how = ServingPass(dtype=workload.weight_dtype, attention=workload.attention, cache=workload.cache)
    highs = record(model, how)
    weights = model.weight_bytes(workload.weight_dtype) + model.buffer_bytes
    cache = _cache_bytes(model, workload)
    total = workload.prompt_tokens + workload.output_tokens
    prefill = _parts(highs[Section.PREFILL], workload.num_sequences, workload.prompt_tokens)
    decode = _parts(highs[Section.DECODE], workload.num_sequences, total)
    decode["kv_cache"] = cache
    if workload.cache is Cache.STATIC:
        prefill["kv_cache"] = cache
    moments = {"load": {"weights": weights}, "prefill": prefill | {"weights": weights}}
    if workload.output_tokens:
        moments["decode"] = decode | {"weights": weights}
    instants = tuple(Instant(name, sum(parts.values())) for name, parts in moments.items())
    peak = max(instants, key=lambda instant: instant.allocated_bytes)
    return Draft(
        num_gpus=layout.num_gpus,
        instants=instants,
        peak=peak,
        steady_bytes=weights + cache,
        components=tuple(serving_components(model, workload, moments[peak.name])),
        approximate=model.spec.approximate,
        serving=Serving(
            kv_bytes_per_token=kv_bytes_per_token(model, workload),
            kv_cache_bytes=cache,
            required_bytes=peak.allocated_bytes,
            budget_bytes=device.usable_bytes,
        ),
    )


def kv_bytes_per_token(model: Architecture, workload: ServeWorkload) -> int:
    """Return the bytes that all layers keep for one token: two tensors of the key/value heads each."""
    elements = sum(block.cache_elements_per_token * count for block, count in model.blocks)
    return elements * workload.kv_cache_dtype.bytes_per_element


def _cache_bytes(model: Architecture, workload: ServeWorkload) -> int:
    tokens = workload.prompt_tokens + workload.output_tokens
    if workload.cache is Cache.STATIC and workload.max_model_len is not None:
        tokens = max(tokens, workload.max_model_len)
    return kv_bytes_per_token(model, workload) * workload.num_sequences * tokens


def _parts(points: tuple[Point, ...], num_sequences: int, tokens: int) -> dict[str, int]:
    values = sizes.monomials(num_sequences, tokens)
    best = max(points, key=lambda point: sizes.evaluate(point.bytes, values))
    return {category.value: sizes.evaluate(size, values) for category, size in best.live}
