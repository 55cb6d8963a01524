"""Replay of a replica's allocations, where their order is known."""

from dataclasses import dataclass

from service.estimator.backends.pass_cache import PassCache
from service.estimator.backends.transformers.generation import count_held_input_bytes
from service.estimator.backends.transformers.release import TransformersRelease
from service.estimator.memory.adapter_bases import BaseWeights
from service.estimator.memory.allocator.kernel_buffers import (
    KernelBuffers,
    find_kernel_buffers,
    select_kernels,
)
from service.estimator.memory.allocator.packed_weights import list_packed_tensors
from service.estimator.memory.allocator.replay import ReplayResult
from service.estimator.memory.allocator.replay_cache import MAX_LOGS, make_minimal_replay
from service.estimator.memory.allocator.serving_replay import ReplicaHistory
from service.estimator.memory.kv_cache import count_cached_tokens
from service.estimator.memory.optimizers.events import unroll
from service.estimator.memory.optimizers.tensors import list_tensors
from service.estimator.memory.question import ServeQuestion
from service.estimator.model.architecture import Architecture
from service.estimator.model.weights.scheme import Packing, Scheme
from service.estimator.passes.config import ServingPass
from service.estimator.passes.serving import log_serving
from service.estimator.tape.cache_log import CachePass
from service.estimator.tape.ledger import Section
from service.estimator.values.memo import Memo
from service.estimator.values.result import Detail
from service.estimator.values.workload import Cache, ServeWorkload


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """A replica that a question asks about, with its passes."""

    question: ServeQuestion
    config: ServingPass
    release: TransformersRelease
    scheme: Scheme | None
    weight_bytes: int


def replay_replica(replica: Replica, peak: int, cache: PassCache) -> ReplayResult | None:
    """Return the replay of a replica in the detail of its question.

    ``peak`` is that of its phases. None where the question does not want it, or where the order of
    its allocations is not known.
    """
    question, kernels = replica.question, find_kernel_buffers(replica.question.device)
    if kernels is None or not _has_known_order(replica):
        return None
    kind = question.workload.allocator
    if question.detail is Detail.LEAST:
        return make_minimal_replay(kind, peak)
    if not question.detail.is_replayed:
        return None
    model = (question.model.spec, question.model.quantization)
    key = (model, question.workload, replica.config, kernels)
    return cache.replays.replay_serving(
        key, lambda: _list_requests(replica, kernels, cache), kind, kernels, peak
    )


def _has_known_order(replica: Replica) -> bool:
    """Return whether every tensor of weights and cache is known."""
    model, workload = replica.question.model, replica.question.workload
    window, prompt = model.spec.sliding_window, workload.prompt_tokens
    fills_window = window is not None and prompt < window <= count_cached_tokens(workload)
    return (
        (replica.scheme is None or replica.scheme.packing is Packing.BLOCKS_4BIT)
        and workload.cache is Cache.DYNAMIC
        and workload.num_beams == 1
        and workload.speculative is None
        and workload.kv_cache_dtype is workload.weight_dtype
        and not replica.release.keeps_old_cache
        and not model.recurrent
        and not fills_window
    )


def _list_requests(replica: Replica, kernels: KernelBuffers, cache: PassCache) -> ReplicaHistory:
    model, workload = replica.question.model, replica.question.workload
    config = select_kernels(replica.config, kernels)
    loaded = _list_weights(replica)
    cached_tokens = count_cached_tokens(workload)
    decodes = cached_tokens > workload.prompt_tokens
    return ReplicaHistory(
        loaded=loaded,
        dropped=loaded[:1] if cache.replays.builds_on_gpu and model.tied else (),
        inputs=_list_held_inputs(model, workload),
        prefill=_log(replica, config, Section.PREFILL, cache),
        decode=_log(replica, config, Section.DECODE, cache) if decodes else None,
        num_sequences=workload.num_sequences,
        prompt_tokens=workload.prompt_tokens,
        cached_tokens=cached_tokens,
    )


def _list_weights(replica: Replica) -> tuple[int, ...]:
    """Return the bytes of every weight in order.

    Those of all buffers together come last.
    """
    model, dtype = replica.question.model, replica.question.workload.weight_dtype
    width = dtype.bytes_per_element
    weights = (
        [tensor.numel * width for tensor in unroll(list_tensors(model.counts.tensors))]
        if replica.scheme is None
        else list_packed_tensors(model, BaseWeights(scheme=replica.scheme, dtype=dtype))
    )
    return (*weights, max(replica.weight_bytes - sum(weights), 0))


def _list_held_inputs(model: Architecture, workload: ServeWorkload) -> tuple[int, ...]:
    """Return the bytes of the prompts and of their mask.

    Callers of ``generate`` hold them.
    """
    held_bytes = count_held_input_bytes(model, workload).get("prefill", 0)
    return (held_bytes // 2, held_bytes // 2)


def _log(replica: Replica, config: ServingPass, section: Section, cache: PassCache) -> CachePass:
    model = replica.question.model
    logs: Memo[CachePass] = cache.get_memo("serving logs", MAX_LOGS)
    return logs.get_or_make(
        (model.spec, config, section), lambda: log_serving(model, config, section)
    )
