"""The front door: how many bytes a workload needs on each GPU, and why."""

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from importlib import import_module
from typing import TypeVar

from service.estimator.backends.transformers.training import explain_training, outline_training
from service.estimator.memory.allocator.caching_allocator import Check
from service.estimator.memory.allocator.replay_cache import ReplayCache, least_replay
from service.estimator.memory.answer.assemble import Draft, assemble
from service.estimator.memory.intervals.ends import LEVEL
from service.estimator.memory.peft_methods import as_adapters
from service.estimator.memory.static import Footing, footing_of
from service.estimator.memory.timeline import peak_on, timeline_on
from service.estimator.memory.training_pass import fixed_words, shape_of, training_pass
from service.estimator.model.architecture import Architecture
from service.estimator.model.quantization.loading import as_loaded
from service.estimator.model.tensor_parallel.split_plan import TRANSFORMERS, SplitPlan
from service.estimator.passes.recorder import Highs, ServingPass, TrainingPass, record_serving, record_training
from service.estimator.rules.training import check_shape, check_training
from service.estimator.rules.warnings import remarks
from service.estimator.speed.throughput import WorkCache
from service.estimator.values.corrections import Corrections, ImplausibleCorrectionError
from service.estimator.values.device import Device
from service.estimator.values.layout import Layout
from service.estimator.values.result import Detail, Estimate
from service.estimator.values.workload import Engine, Framework, ServeWorkload, TrainWorkload, Workload

V = TypeVar("V")

MAX_PLANS = 256
_ENGINES = frozenset(Engine) - {Engine.TRANSFORMERS}
_FRAMEWORKS = frozenset({Framework.MEGATRON, Framework.TORCHTITAN})


class PlanCache:
    """Recordings that their owner keeps: one per model and kind of pass, the oldest dropped first."""

    def __init__(self, capacity: int = MAX_PLANS) -> None:
        """Keep at most ``capacity`` recordings."""
        self._capacity = capacity
        self.works = WorkCache(capacity)
        self.replays = ReplayCache()
        self._plans: dict[object, Highs] = {}
        self._footings: dict[object, Footing] = {}
        self._shapes: dict[object, Highs] = {}
        self._shares: dict[object, Architecture] = {}
        self.chunks: dict[Framework, dict[object, object]] = {}
        """What each framework with model code of its own recorded, by keys of its own."""

    def given_up_by(self, check: Check) -> "PlanCache":
        """Return the same cache for a question whose replays end, with what ``check`` raises, once nobody waits for them."""
        shared = copy(self)
        shared.replays = self.replays.given_up_by(check)
        return shared

    def training(self, model: Architecture, how: TrainingPass) -> Highs:
        """Return the recording of a training pass, made once."""
        key = (model.spec, how)
        highs = self._plans.get(key)
        return highs if highs is not None else _keep(self._plans, key, record_training(model, how), self._capacity)

    def footing(self, model: Architecture, workload: TrainWorkload, layout: Layout) -> Footing:
        """Return what a training step stands on, checked and made once for every batch and sequence; raises what checks do."""
        key = (model.spec, model.quantization, fixed_words(workload), layout)
        known = self._footings.get(key)
        if known is not None:
            check_shape(model, workload)
            return known
        check_training(model, workload, layout)
        rank = self.share(model, layout.tensor_parallel, TRANSFORMERS)
        return _keep(self._footings, key, footing_of(rank, workload, layout), self._capacity)

    def highs(self, footing: Footing, workload: TrainWorkload, layout: Layout) -> Highs:
        """Return the recording that a question is priced on."""
        key = (footing, shape_of(footing.model, workload))
        found = self._shapes.get(key)
        if found is not None:
            return found
        recorded = self.training(footing.model, training_pass(footing.model, workload, layout))
        return _keep(self._shapes, key, recorded, self._capacity)

    def serving(self, model: Architecture, how: ServingPass) -> Highs:
        """Return the recording of prefill and decode, made once."""
        key = (model.spec, how)
        highs = self._plans.get(key)
        return highs if highs is not None else _keep(self._plans, key, record_serving(model, how), self._capacity)

    def share(self, model: Architecture, tensor_parallel: int, plan: SplitPlan) -> Architecture:
        """Return one tensor-parallel rank's share of a model, made once."""
        if tensor_parallel == 1:
            return model
        key = (model.spec, tensor_parallel, plan)
        shared = self._shares.get(key)
        if shared is None:
            shared = _local(model, tensor_parallel, plan)
            if len(self._shares) >= self._capacity:
                self._shares.clear()
            self._shares[key] = shared
        return shared


def _local(model: Architecture, tensor_parallel: int, plan: SplitPlan) -> Architecture:
    """Return one rank's share of a model; what shares it out is loaded for more than one rank."""
    if tensor_parallel == 1:
        return model
    shared: Architecture = import_module("service.estimator.model.tensor_parallel.local").local_architecture(
        model, tensor_parallel, plan
    )
    return shared


def _keep(kept: dict[object, V], key: object, value: V, most: int) -> V:
    """Keep a value, and drop the oldest ones beyond so many."""
    for oldest in list(kept)[: len(kept) - most + 1]:
        kept.pop(oldest, None)
    kept[key] = value
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
    """Return the memory of the worst rank in the steady state, with intervals of a level that the residuals carry.

    The numbers are the same with and without their explanation; a replay of the allocator changes what is reserved.
    Raises InvalidInputError for what cannot run and NotModelledError for what has no term yet.
    """
    model = as_loaded(model, workload)
    said = remarks(model, workload, layout) if detail is not Detail.NUMBERS else ()
    try:
        found = _estimate(model, workload, layout, device, corrections=corrections, plans=plans, detail=detail, level=level)
    except ImplausibleCorrectionError as error:
        # A wrong measurement must not take the analytic answer away.
        found = _estimate(model, workload, layout, device, corrections=None, plans=plans, detail=detail, level=level)
        said = (*said, str(error))
    return replace(found, warnings=(*found.warnings, *said)) if said else found


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
    """Return the answer of whoever runs the workload, without what is said beside it."""
    if isinstance(workload, TrainWorkload) and workload.peft is not None:
        workload = as_adapters(model, workload)
    if isinstance(workload, ServeWorkload) and workload.engine in _ENGINES:
        return _engine(workload.engine)(model, workload, layout, device, detail=detail)
    if isinstance(workload, TrainWorkload) and workload.framework in _FRAMEWORKS:
        memory = plans.chunks.setdefault(workload.framework, {}) if plans is not None else None
        ask = _framework(workload.framework)
        return ask(model, workload, layout, device, corrections=corrections, memory=memory, detail=detail, level=level)
    if isinstance(workload, ServeWorkload):
        record, share = (plans.serving, plans.share) if plans is not None else (record_serving, _local)
        serve = import_module("service.estimator.backends.transformers.answer").answer_serving
        draft = serve(model, workload, layout, device, corrections=corrections, record=record, share=share)
        compute_dtype = workload.weight_dtype
    else:
        draft = _training(model, workload, layout, corrections, plans if plans is not None else PlanCache(), detail)
        compute_dtype = workload.precision.compute_dtype
    warnings = device.warnings_for(compute_dtype)
    return assemble(draft, corrections=corrections, device=device, warnings=warnings, detail=detail, level=level)


def _training(
    model: Architecture,
    workload: TrainWorkload,
    layout: Layout,
    corrections: Corrections | None,
    plans: PlanCache,
    detail: Detail,
) -> Draft:
    """Return the answer of the transformers library's own model code."""
    footing = plans.footing(model, workload, layout)
    highs = plans.highs(footing, workload, layout)
    if detail is Detail.NUMBERS:
        return outline_training(footing, workload, layout, peak_on(footing, workload, highs, corrections))
    timeline = timeline_on(footing, workload, highs)
    replayed = None
    if detail is Detail.REPLAYED:
        replayed = plans.replays.training(footing.model, workload, layout, timeline)
    elif detail is Detail.LEAST:
        replayed = least_replay(workload.allocator, timeline)
    return explain_training(footing.model, workload, layout, timeline, corrections, replayed)


def _framework(framework: Framework) -> Callable[..., Estimate]:
    """Return the answer of a framework with model code of its own, loaded when it is asked for."""
    answer: Callable[..., Estimate] = import_module(f"service.estimator.backends.{framework.value}.answer").answer
    return answer


def _engine(engine: Engine) -> Callable[..., Estimate]:
    """Return the answer of an engine, whose module is loaded when it is asked for."""
    answer: Callable[..., Estimate] = import_module(f"service.estimator.backends.{engine.value}.answer").answer
    return answer
