"""Questions about calls of pipelines: does one fit, and what would help."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from service.estimator.pipelines.estimate import estimate_generation
from service.estimator.pipelines.recording import RecordedPipeline
from service.estimator.pipelines.workload import GenerateWorkload, PipelineOffload
from service.estimator.values.device import Device
from service.estimator.values.errors import EstimatorError
from service.estimator.values.result import Estimate
from service.planner.fit.fit import FitReport
from service.planner.fit.verdict import Verdict, judge

_UNTIMED = "no time is told of pipelines"
_SMALLEST_STEPS: tuple[Mapping[str, object], ...] = (
    {"vae_tiling": True},
    {"vae_slicing": True},
    {"offloading": PipelineOffload.MODEL},
    {"offloading": PipelineOffload.MODEL, "vae_tiling": True},
    {"offloading": PipelineOffload.GROUP},
    {"offloading": PipelineOffload.GROUP, "vae_tiling": True},
    {"offloading": PipelineOffload.SEQUENTIAL},
    {"offloading": PipelineOffload.SEQUENTIAL, "vae_tiling": True},
)
"""Changes that leave the picture as it is, what costs the least time first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationQuestion:
    """A call of a pipeline on a GPU, with the intervals' level."""

    pipeline: RecordedPipeline
    workload: GenerateWorkload
    device: Device
    level: float
    remedies: bool = True
    assumptions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineRemedy:
    """A change of a call with what it saves, and its verdict."""

    change: Mapping[str, object]
    saves_bytes: int
    verdict: Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationReport:
    """A fit, and the changes that would help."""

    fit: FitReport
    remedies: tuple[PipelineRemedy, ...]


def answer_generation(
    question: GenerationQuestion, check: Callable[[], None] = lambda: None
) -> GenerationReport:
    """Return the verdict, with what would help where it does not fit.

    ``check`` is called before each estimate, and raises where no answer is wanted any more.
    """
    check()
    estimate = _estimate(question, question.workload)
    judgement = judge(estimate, question.device)
    misses = judgement.verdict is Verdict.DOES_NOT_FIT and question.remedies
    report = FitReport(
        estimate=estimate,
        device=question.device,
        verdict=judgement.verdict,
        headroom_bytes=judgement.headroom_bytes,
        deficit_bytes=judgement.deficit_bytes,
        rules_of_thumb=(),
        remedies=(),
        warnings=(*estimate.warnings, _UNTIMED),
    )
    remedies = sorted(_iterate_remedies(question, estimate, check), key=_rank) if misses else ()
    return GenerationReport(fit=report, remedies=tuple(remedies))


def _rank(remedy: PipelineRemedy) -> bool:
    """Return whether a change helps too little: such come last."""
    return remedy.verdict is Verdict.DOES_NOT_FIT


def _iterate_remedies(
    question: GenerationQuestion, before: Estimate, check: Callable[[], None]
) -> Iterator[PipelineRemedy]:
    """Yield the changes that save anything and have a term."""
    seen: set[int] = set()
    for change in _SMALLEST_STEPS:
        check()
        try:
            workload = replace(question.workload, **change)  # type: ignore[arg-type]  # fields of the workload
            after = _estimate(question, workload)
        except EstimatorError:
            continue
        saved = before.device_bytes - after.device_bytes
        if saved > 0 and saved not in seen:
            seen.add(saved)
            yield PipelineRemedy(
                change=change,
                saves_bytes=saved,
                verdict=judge(after, question.device).verdict,
            )


def _estimate(question: GenerationQuestion, workload: GenerateWorkload) -> Estimate:
    return estimate_generation(question.pipeline, workload, question.device, level=question.level)
