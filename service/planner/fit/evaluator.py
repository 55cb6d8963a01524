"""What a plan is about: a model on a kind of GPU, and how to ask what it needs there."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

from service.estimator.estimate import PlanCache, estimate
from service.estimator.memory.intervals.ends import LEVEL
from service.estimator.model.architecture import Architecture
from service.estimator.speed.throughput import WorkCache, throughput_of
from service.estimator.values.corrections import NOTHING, Corrections
from service.estimator.values.device import Device
from service.estimator.values.errors import InvalidInputError
from service.estimator.values.layout import Layout
from service.estimator.values.result import Detail, Estimate, Throughput
from service.estimator.values.workload import ServeWorkload, Workload
from service.planner.fit.hardware import check_hardware, kernel_warnings, with_kernel_of
from service.planner.legality.on_device import Unmet

Evaluate = Callable[[Workload, Layout], Estimate]
Bound = Callable[[Workload, Layout], Estimate | None]
CorrectionsFor = Callable[[Workload, Layout], Corrections | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A model on a GPU; ``evaluate`` and ``answer`` raise EstimatorError for what cannot run or has no term yet.

    Searches ask for ``numbers`` of what they try, and ``evaluate`` what they explain; what is shown is an ``answer``, which
    replays the allocator as well.
    """

    architecture: Architecture
    device: Device
    evaluate: Evaluate
    replayed: Evaluate | None = None
    outlined: Evaluate | None = None
    least: Bound = lambda _workload, _layout: None
    """The numbers below which no answer that is replayed can be; None where nothing tells."""
    works: WorkCache = field(default_factory=WorkCache)

    def answer(self, workload: Workload, layout: Layout) -> Estimate:
        """Return everything that is known of one configuration."""
        return (self.replayed or self.evaluate)(workload, layout)

    def numbers(self, workload: Workload, layout: Layout) -> Estimate:
        """Return the bytes of one configuration, without what they are made of."""
        return (self.outlined or self.evaluate)(workload, layout)

    def throughput(self, workload: Workload, layout: Layout, estimate: Estimate) -> Throughput | None:
        """Return how long a step takes; None where nobody told the GPU's rates."""
        return throughput_of(self.architecture, workload, layout, self.device, estimate, self.works)


def asked_once(subject: Subject) -> Subject:
    """Return a subject that answers each configuration of a replica once: nothing is replayed, its numbers are the answer."""
    known: dict[tuple[Workload, Layout], Estimate] = {}

    def evaluate(workload: Workload, layout: Layout) -> Estimate:
        found = known.get((workload, layout))
        if found is None:
            found = known[workload, layout] = subject.evaluate(workload, layout)
        return found

    return replace(subject, evaluate=evaluate, replayed=None, outlined=None)


def check_alone(device: Device, workload: Workload, layout: Layout) -> None:
    """Refuse a job of several MIG slices, but of replicas that stand alone.

    Slices have neither peer-to-peer copies nor NVLink, and a process sees one of them (NVIDIA MIG User Guide, "Deployment
    Considerations" and "CUDA Device Enumeration").
    """
    together = layout.num_gpus
    if isinstance(workload, ServeWorkload) and layout.expert_parallel == 1:
        together //= layout.data_parallel
    if device.mig_profile is not None and together > 1:
        message = f"{together} MIG slices {device.mig_profile} cannot work together: a job, or a served replica, has one slice"
        raise InvalidInputError(message, field="layout")


def make_subject(
    architecture: Architecture,
    device: Device,
    *,
    corrections_for: CorrectionsFor = lambda _workload, _layout: None,
    plans: PlanCache | None = None,
    level: float = LEVEL,
) -> Subject:
    """Return the subject that the estimator answers for, with intervals of a level.

    ``corrections_for`` says what was learnt about a configuration.
    """
    recordings = PlanCache() if plans is None else plans
    unmet = Unmet(architecture, device)

    def evaluate(workload: Workload, layout: Layout, detail: Detail = Detail.FULL) -> Estimate:
        check_alone(device, workload, layout)
        check_hardware(device, workload)
        unmet.check(workload)
        runs = with_kernel_of(device, architecture, workload)
        known = corrections_for(workload, layout)
        found = estimate(
            architecture,
            runs,
            layout=layout,
            device=device,
            corrections=known,
            plans=recordings,
            detail=detail,
            level=level,
        )
        if detail is Detail.NUMBERS:
            return found
        said = (*unmet.warnings(workload), *kernel_warnings(device, workload, runs))
        return replace(found, warnings=(*found.warnings, *said)) if said else found

    def least(workload: Workload, layout: Layout) -> Estimate | None:
        known = corrections_for(workload, layout)
        if known is not None and (known.reserved != NOTHING or known.device_at_least_bytes):
            return None  # what was measured of the reserved bytes may make less of more
        return evaluate(workload, layout, Detail.LEAST)

    return Subject(
        architecture=architecture,
        device=device,
        evaluate=evaluate,
        replayed=partial(evaluate, detail=Detail.REPLAYED),
        outlined=partial(evaluate, detail=Detail.NUMBERS),
        least=least,
        works=recordings.works,
    )
