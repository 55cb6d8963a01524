"""Evaluators: estimate functions for a model on a kind of GPU."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

from service.estimator.cache import MAX_CONFIGURATIONS, PlanCache
from service.estimator.estimate import estimate
from service.estimator.memory.answer.corrections import (
    CALIBRATED,
    MEASURED,
    correct_throughput,
)
from service.estimator.memory.intervals.ends import LEVEL
from service.estimator.model.architecture import Architecture
from service.estimator.model.quantization.loading import as_loaded
from service.estimator.speed.learning import find_learnt_rates
from service.estimator.speed.throughput import WorkCache, estimate_throughput
from service.estimator.values.corrections import (
    NO_CORRECTION,
    SHIPPED_SPEEDS,
    TIMES,
    Corrections,
    SpeedRatios,
)
from service.estimator.values.device import Device
from service.estimator.values.errors import InvalidInputError
from service.estimator.values.layout import Layout
from service.estimator.values.memo import Memo, OfObjects
from service.estimator.values.result import Detail, Estimate, Throughput
from service.estimator.values.workload import ServeWorkload, Workload
from service.planner.fit.hardware import (
    check_hardware,
    list_kernel_warnings,
    select_attention_kernel,
)
from service.planner.fit.rule_of_thumb import RulesOfThumb
from service.planner.fit.unmet_needs import UnmetNeeds

Config = tuple[Workload, Layout]
Evaluate = Callable[[Workload, Layout], Estimate]
LowerBound = Callable[[Workload, Layout], Estimate | None]
CorrectionsFor = Callable[[Workload, Layout], Corrections | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluator:
    """A model on a GPU with its estimate functions.

    ``evaluate`` and ``answer`` raise EstimatorError for what cannot run or has no term yet.

    Searches ask ``estimate_numbers`` of what they try, and ``evaluate`` what they explain; what is
    shown is an ``answer``, which replays the allocator as well.
    """

    architecture: Architecture
    device: Device
    evaluate: Evaluate
    replayed: Evaluate | None = None
    outlined: Evaluate | None = None
    lower_bound: LowerBound = lambda _workload, _layout: None
    """Lower bound of the numbers of any replayed answer; None where it is unknown."""
    works: WorkCache = field(default_factory=WorkCache)
    rules: Memo[OfObjects[RulesOfThumb]] = field(default_factory=lambda: Memo(MAX_CONFIGURATIONS))
    """Rules of thumb, by what they are made of."""
    time_floor: float = 1.0
    """Lower bound of any configuration's time over that at the rates of the GPU's kind."""

    def answer(self, workload: Workload, layout: Layout) -> Estimate:
        """Return the full estimate of one configuration."""
        return (self.replayed or self.evaluate)(workload, layout)

    def estimate_numbers(self, workload: Workload, layout: Layout) -> Estimate:
        """Return the bytes of one configuration, without components."""
        return (self.outlined or self.evaluate)(workload, layout)

    def get_throughput(
        self, workload: Workload, layout: Layout, estimate: Estimate
    ) -> Throughput | None:
        """Return the throughput of a configuration, as measurements correct it.

        None where the GPU's rates are unknown.
        """
        return correct_throughput(
            self._estimate_on_machine(workload, layout, estimate, estimate.speeds),
            estimate.step_time_ratio,
            prefill_ratio=estimate.prefill_time_ratio,
            basis=estimate.bases.get("step_time", "analytic"),
        )

    def get_predicted_throughput(
        self, workload: Workload, layout: Layout, estimate: Estimate
    ) -> Throughput | None:
        """Return the throughput as if this configuration were not timed itself.

        It is what compares with a configuration that was not, where the machine's speeds are known.
        """
        speeds = estimate.machine_speeds
        if speeds == SHIPPED_SPEEDS:
            return self.get_throughput(workload, layout, estimate)
        return self._estimate_on_machine(workload, layout, estimate, speeds)

    def get_loaded(self, workload: Workload) -> Architecture:
        """Return the model as a workload's framework or engine loads its weights."""
        return as_loaded(self.architecture, workload)

    def get_analytic_throughput(
        self, workload: Workload, layout: Layout, estimate: Estimate
    ) -> Throughput | None:
        """Return the throughput at the rates of the GPU's kind.

        None where these are unknown.
        """
        return estimate_throughput(
            self.get_loaded(workload), workload, layout, self.device, estimate, self.works
        )

    def _estimate_on_machine(
        self, workload: Workload, layout: Layout, estimate: Estimate, speeds: SpeedRatios
    ) -> Throughput | None:
        """Return the throughput at the speeds that were learnt of the machine."""
        rates = find_learnt_rates(self.device.name, speeds)
        if rates is None:
            return self.get_analytic_throughput(workload, layout, estimate)
        model = self.get_loaded(workload)
        throughput = estimate_throughput(
            model, workload, layout, self.device, estimate, self.works, rates=rates
        )
        return None if throughput is None else replace(throughput, basis=CALIBRATED)


def is_timed(estimate: Estimate) -> bool:
    """Return whether a time of this very configuration was measured."""
    return any(estimate.bases.get(name) == MEASURED for name in TIMES)


def memoize_evaluator(evaluator: Evaluator) -> Evaluator:
    """Return an evaluator that caches estimates of serving configurations.

    A search asks again for what it has tried; a replica has few numbers that are not explained.
    """
    replayed = None if evaluator.replayed is None else _memoize(evaluator.replayed)
    return replace(
        evaluator,
        evaluate=_memoize(evaluator.evaluate),
        replayed=replayed,
        outlined=None,
    )


def _memoize(evaluate: Evaluate) -> Evaluate:
    cache: dict[tuple[Workload, Layout], Estimate] = {}

    def evaluate_once(workload: Workload, layout: Layout) -> Estimate:
        result = cache.get((workload, layout))
        if result is None:
            result = cache[workload, layout] = evaluate(workload, layout)
        return result

    return evaluate_once


def check_mig_slices(device: Device, workload: Workload, layout: Layout) -> None:
    """Refuse a job of several MIG slices.

    Replicas that stand alone are allowed.

    Slices have neither peer-to-peer copies nor NVLink, and a process sees one of them (NVIDIA MIG
    User Guide, "Deployment Considerations" and "CUDA Device Enumeration").
    """
    together = layout.num_gpus
    if isinstance(workload, ServeWorkload) and layout.expert_parallel == 1:
        together //= layout.data_parallel
    if device.mig_profile is not None and together > 1:
        message = (
            f"{together} MIG slices {device.mig_profile} cannot work together: a job, or a served "
            "replica, has one slice"
        )
        raise InvalidInputError(message, field="layout")


def make_evaluator(
    architecture: Architecture,
    device: Device,
    *,
    corrections_for: CorrectionsFor = lambda _workload, _layout: None,
    plans: PlanCache | None = None,
    level: float = LEVEL,
    time_floor: float = 1.0,
) -> Evaluator:
    """Make an evaluator on the estimator, with intervals of a level.

    ``corrections_for`` returns what was learnt about a configuration, ``time_floor`` is what that
    makes of an analytic time at least.
    """
    recordings = PlanCache() if plans is None else plans
    unmet = UnmetNeeds(architecture, device)

    def evaluate(workload: Workload, layout: Layout, detail: Detail = Detail.FULL) -> Estimate:
        check_mig_slices(device, workload, layout)
        check_hardware(device, workload)
        unmet.check(workload)
        effective = select_attention_kernel(device, architecture, workload)
        corrections = corrections_for(workload, layout)
        result = estimate(
            architecture,
            effective,
            layout=layout,
            device=device,
            corrections=corrections,
            plans=recordings,
            detail=detail,
            level=level,
        )
        if not detail.is_explained:
            return result
        warnings = (
            *unmet.list_warnings(workload),
            *list_kernel_warnings(device, workload, effective),
        )
        return replace(result, warnings=(*result.warnings, *warnings)) if warnings else result

    def estimate_lower_bound(workload: Workload, layout: Layout) -> Estimate | None:
        corrections = corrections_for(workload, layout)
        if corrections is not None and (
            corrections.reserved != NO_CORRECTION or corrections.device_at_least_bytes
        ):
            return None  # what was measured of the reserved bytes may make less of more
        return evaluate(workload, layout, Detail.LEAST)

    return Evaluator(
        architecture=architecture,
        device=device,
        evaluate=evaluate,
        replayed=partial(evaluate, detail=Detail.REPLAYED),
        outlined=partial(evaluate, detail=Detail.NUMBERS),
        lower_bound=estimate_lower_bound,
        works=recordings.works,
        rules=recordings.get_memo("rules of thumb", MAX_CONFIGURATIONS),
        time_floor=time_floor,
    )
