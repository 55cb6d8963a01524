"""What a plan is about: a model on a kind of GPU, and how to ask what it needs there."""

from collections.abc import Callable
from dataclasses import dataclass, field

from service.estimator.architecture import Architecture
from service.estimator.corrections import Corrections
from service.estimator.device import Device
from service.estimator.estimate import PlanCache, estimate
from service.estimator.layout import Layout
from service.estimator.result import Estimate, Throughput
from service.estimator.speed.throughput import WorkCache, throughput_of
from service.estimator.workload import Workload

Evaluate = Callable[[Workload, Layout], Estimate]
CorrectionsFor = Callable[[Workload, Layout], Corrections | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A model on a GPU; ``evaluate`` raises EstimatorError for what cannot run or has no term yet."""

    architecture: Architecture
    device: Device
    evaluate: Evaluate
    works: WorkCache = field(default_factory=WorkCache)

    def throughput(self, workload: Workload, layout: Layout, estimate: Estimate) -> Throughput | None:
        """Return how long a step takes; None where nobody told the GPU's rates."""
        return throughput_of(self.architecture, workload, layout, self.device, estimate, self.works)


def make_subject(
    architecture: Architecture,
    device: Device,
    *,
    corrections_for: CorrectionsFor = lambda _workload, _layout: None,
    plans: PlanCache | None = None,
) -> Subject:
    """Return the subject that the estimator answers for; ``corrections_for`` says what was learnt about a configuration."""
    recordings = PlanCache() if plans is None else plans

    def evaluate(workload: Workload, layout: Layout) -> Estimate:
        corrections = corrections_for(workload, layout)
        return estimate(architecture, workload, layout=layout, device=device, corrections=corrections, plans=recordings)

    return Subject(architecture=architecture, device=device, evaluate=evaluate, works=recordings.works)
