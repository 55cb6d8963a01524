"""Memory estimate of a workload on each GPU."""

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from importlib import import_module
from typing import TypeVar

from service.estimator.backends.transformers.training import explain_training, outline_training
from service.estimator.memory.allocator.caching_allocator import CancelCheck
from service.estimator.memory.allocator.replay_cache import ReplayCache, make_minimal_replay
from service.estimator.memory.answer.assemble import PartialEstimate, assemble
from service.estimator.memory.intervals.ends import LEVEL
from service.estimator.memory.peft_methods import resolve_peft_method
from service.estimator.memory.static import StaticMemory, build_static_memory
from service.estimator.memory.timeline import build_timeline, find_peak
from service.estimator.memory.training_pass import (
    build_training_pass,
    get_fixed_fields,
    resolve_batch_shape,
)
from service.estimator.model.architecture import Architecture
from service.estimator.model.quantization.loading import as_loaded
from service.estimator.model.tensor_parallel.split_plan import TRANSFORMERS, SplitPlan
from service.estimator.passes.recorder import (
    PeakCandidates,
    ServingPass,
    TrainingPass,
    record_serving,
    record_training,
)
from service.estimator.rules.checks import check, check_sizes
from service.estimator.rules.tables.training.transformers import TRAIN_TRANSFORMERS
from service.estimator.rules.warnings import list_effect_warnings
from service.estimator.speed.throughput import WorkCache
from service.estimator.values.corrections import Corrections, ImplausibleCorrectionError
from service.estimator.values.device import Device
from service.estimator.values.layout import Layout
from service.estimator.values.result import Detail, Estimate
from service.estimator.values.workload import (
    Engine,
    Framework,
    ServeWorkload,
    TrainWorkload,
    Workload,
)

V = TypeVar("V")

MAX_PLANS = 256
_ENGINES = frozenset(Engine) - {Engine.TRANSFORMERS}
_FRAMEWORKS = frozenset({Framework.MEGATRON, Framework.TORCHTITAN})


class PlanCache:
    """Cache of recordings, one per model and kind of pass.

    Its owner keeps it; the oldest recordings are dropped first.
    """

    def __init__(self, capacity: int = MAX_PLANS) -> None:
        """Keep at most ``capacity`` recordings."""
        self._capacity = capacity
        self.works = WorkCache(capacity)
        self.replays = ReplayCache()
        self._plans: dict[object, PeakCandidates] = {}
        self._static_memory: dict[object, StaticMemory] = {}
        self._shapes: dict[object, PeakCandidates] = {}
        self._shards: dict[object, Architecture] = {}
        self.framework_caches: dict[Framework, dict[object, object]] = {}
        """What each framework with model code of its own recorded, by keys of its own."""

    def with_cancellation(self, check: CancelCheck) -> "PlanCache":
        """Return the same cache with replays that can be cancelled.

        A replay ends, with the exception that ``check`` raises, once nobody waits for its question
        any more.
        """
        shared = copy(self)
        shared.replays = self.replays.with_cancellation(check)
        return shared

    def get_training(self, model: Architecture, config: TrainingPass) -> PeakCandidates:
        """Return the recording of a training pass, made once."""
        key = (model.spec, config)
        candidates = self._plans.get(key)
        return (
            candidates
            if candidates is not None
            else _store(self._plans, key, record_training(model, config), self._capacity)
        )

    def get_static_memory(
        self, model: Architecture, workload: TrainWorkload, layout: Layout
    ) -> StaticMemory:
        """Return the static memory of a training step.

        It is checked and made once for every batch and sequence; raises what the checks raise.
        """
        key = (model.spec, model.quantization, get_fixed_fields(workload), layout)
        cached = self._static_memory.get(key)
        if cached is not None:
            check_sizes(TRAIN_TRANSFORMERS, model, workload, layout)
            return cached
        check(TRAIN_TRANSFORMERS, model, workload, layout)
        rank = self.get_shard(model, layout.tensor_parallel, TRANSFORMERS)
        return _store(
            self._static_memory, key, build_static_memory(rank, workload, layout), self._capacity
        )

    def get_candidates(
        self, static_memory: StaticMemory, workload: TrainWorkload, layout: Layout
    ) -> PeakCandidates:
        """Return the recording that prices a question."""
        key = (static_memory, resolve_batch_shape(static_memory.model, workload))
        cached = self._shapes.get(key)
        if cached is not None:
            return cached
        recorded = self.get_training(
            static_memory.model, build_training_pass(static_memory.model, workload, layout)
        )
        return _store(self._shapes, key, recorded, self._capacity)

    def get_serving(self, model: Architecture, config: ServingPass) -> PeakCandidates:
        """Return the recording of prefill and decode, made once."""
        key = (model.spec, config)
        candidates = self._plans.get(key)
        return (
            candidates
            if candidates is not None
            else _store(self._plans, key, record_serving(model, config), self._capacity)
        )

    def get_shard(self, model: Architecture, tensor_parallel: int, plan: SplitPlan) -> Architecture:
        """Return one tensor-parallel rank's shard of a model, made once."""
        if tensor_parallel == 1:
            return model
        key = (model.spec, tensor_parallel, plan)
        shard = self._shards.get(key)
        if shard is None:
            shard = _shard_model(model, tensor_parallel, plan)
            if len(self._shards) >= self._capacity:
                self._shards.clear()
            self._shards[key] = shard
        return shard


def _shard_model(model: Architecture, tensor_parallel: int, plan: SplitPlan) -> Architecture:
    """Return one rank's shard of a model.

    The sharding code is loaded for more than one rank alone.
    """
    if tensor_parallel == 1:
        return model
    shard: Architecture = import_module(
        "service.estimator.model.tensor_parallel.local"
    ).local_architecture(model, tensor_parallel, plan)
    return shard


def _store(entries: dict[object, V], key: object, value: V, capacity: int) -> V:
    """Store a value, dropping the oldest ones beyond the capacity."""
    for oldest in list(entries)[: len(entries) - capacity + 1]:
        entries.pop(oldest, None)
    entries[key] = value
    return value


def estimate(  # noqa: PLR0913 - the front door: what is asked, where, with what is known, and how much of the answer
    model: Architecture,
    workload: Workload,
    *,
    layout: Layout,
    device: Device,
    corrections: Corrections | None = None,
    plans: PlanCache | None = None,
    detail: Detail = Detail.FULL,
    level: float = LEVEL,
) -> Estimate:
    """Return the memory of the worst rank in the steady state.

    Its intervals are of a level that the residuals carry. The numbers are the same with and without
    their explanation; a replay of the allocator changes what is reserved. Raises InvalidInputError
    for what cannot run and NotModelledError for what has no term yet.
    """
    model = as_loaded(model, workload)
    warnings = list_effect_warnings(model, workload, layout) if detail is not Detail.NUMBERS else ()
    try:
        answer = _estimate(
            model,
            workload,
            layout,
            device,
            corrections=corrections,
            plans=plans,
            detail=detail,
            level=level,
        )
    except ImplausibleCorrectionError as error:
        # A wrong measurement must not take the analytic answer away.
        answer = _estimate(
            model,
            workload,
            layout,
            device,
            corrections=None,
            plans=plans,
            detail=detail,
            level=level,
        )
        warnings = (*warnings, str(error))
    return replace(answer, warnings=(*answer.warnings, *warnings)) if warnings else answer


def _estimate(  # noqa: PLR0913 - what the front door is asked
    model: Architecture,
    workload: Workload,
    layout: Layout,
    device: Device,
    *,
    corrections: Corrections | None,
    plans: PlanCache | None,
    detail: Detail,
    level: float,
) -> Estimate:
    """Return the estimate of the framework or engine that runs the workload.

    The warnings about ineffective options are not part of it.
    """
    if isinstance(workload, TrainWorkload) and workload.peft is not None:
        workload = resolve_peft_method(model, workload)
    if isinstance(workload, ServeWorkload) and workload.engine in _ENGINES:
        return _load_engine(workload.engine)(model, workload, layout, device, detail=detail)
    if isinstance(workload, TrainWorkload) and workload.framework in _FRAMEWORKS:
        memory = (
            plans.framework_caches.setdefault(workload.framework, {}) if plans is not None else None
        )
        answer = _load_framework(workload.framework)
        return answer(
            model,
            workload,
            layout,
            device,
            corrections=corrections,
            memory=memory,
            detail=detail,
            level=level,
        )
    if isinstance(workload, ServeWorkload):
        record, share = (
            (plans.get_serving, plans.get_shard)
            if plans is not None
            else (record_serving, _shard_model)
        )
        serve = import_module("service.estimator.backends.transformers.answer").answer_serving
        partial_estimate = serve(
            model, workload, layout, device, corrections=corrections, record=record, share=share
        )
        compute_dtype = workload.weight_dtype
    else:
        partial_estimate = _estimate_training(
            model,
            workload,
            layout,
            corrections,
            plans if plans is not None else PlanCache(),
            detail,
        )
        compute_dtype = workload.precision.compute_dtype
    warnings = device.list_warnings(compute_dtype)
    return assemble(
        partial_estimate,
        corrections=corrections,
        device=device,
        warnings=warnings,
        detail=detail,
        level=level,
    )


def _estimate_training(
    model: Architecture,
    workload: TrainWorkload,
    layout: Layout,
    corrections: Corrections | None,
    plans: PlanCache,
    detail: Detail,
) -> PartialEstimate:
    """Return the partial estimate of the transformers library's own model code."""
    static_memory = plans.get_static_memory(model, workload, layout)
    candidates = plans.get_candidates(static_memory, workload, layout)
    if detail is Detail.NUMBERS:
        return outline_training(
            static_memory,
            workload,
            layout,
            find_peak(static_memory, workload, candidates, corrections),
        )
    timeline = build_timeline(static_memory, workload, candidates)
    replayed = None
    if detail is Detail.REPLAYED:
        replayed = plans.replays.replay_training(static_memory.model, workload, layout, timeline)
    elif detail is Detail.LEAST:
        replayed = make_minimal_replay(workload.allocator, timeline)
    return explain_training(static_memory.model, workload, layout, timeline, corrections, replayed)


def _load_framework(framework: Framework) -> Callable[..., Estimate]:
    """Return the answer function of a framework, loaded on demand.

    Such a framework has model code of its own.
    """
    answer: Callable[..., Estimate] = import_module(
        f"service.estimator.backends.{framework.value}.answer"
    ).answer
    return answer


def _load_engine(engine: Engine) -> Callable[..., Estimate]:
    """Return the answer function of an engine, loaded on demand."""
    answer: Callable[..., Estimate] = import_module(
        f"service.estimator.backends.{engine.value}.answer"
    ).answer
    return answer
