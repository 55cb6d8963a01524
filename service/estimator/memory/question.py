"""Questions as the backends get them, resolved once."""

from dataclasses import dataclass

from service.estimator.memory.intervals.ends import LEVEL
from service.estimator.memory.peft_methods import resolve_peft_method
from service.estimator.model.architecture import Architecture
from service.estimator.values.backend import Backend, Task
from service.estimator.values.corrections import Corrections
from service.estimator.values.device import Device
from service.estimator.values.layout import Layout
from service.estimator.values.result import Detail
from service.estimator.values.workload import ServeWorkload, TrainWorkload, Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class _Setting:
    """Where a workload runs, what was measured of it, and how much of an answer is wanted."""

    model: Architecture
    """The model as its backend loads it."""
    layout: Layout
    device: Device
    backend: Backend
    corrections: Corrections | None = None
    detail: Detail = Detail.FULL
    level: float = LEVEL


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainQuestion(_Setting):
    """Training step to estimate; a method of PEFT is the adapters that it makes."""

    workload: TrainWorkload

    @property
    def task(self) -> Task:
        """Kind of question."""
        return Task.TRAIN

    @property
    def num_tokens(self) -> int:
        """Tokens of one micro batch."""
        return self.workload.micro_batch_size * self.workload.sequence_length


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeQuestion(_Setting):
    """Serving replica to estimate."""

    workload: ServeWorkload

    @property
    def task(self) -> Task:
        """Kind of question."""
        return Task.SERVE


Question = TrainQuestion | ServeQuestion


def resolve_question(  # noqa: PLR0913 - the question: what runs, where, on what, and how much of the answer
    model: Architecture,
    workload: Workload,
    layout: Layout,
    device: Device,
    backend: Backend,
    *,
    corrections: Corrections | None = None,
    detail: Detail = Detail.FULL,
    level: float = LEVEL,
) -> Question:
    """Return a question of a model as its backend loads it.

    Raises InvalidInputError and NotModelledError for a method of PEFT without a default.
    """
    if isinstance(workload, ServeWorkload):
        return ServeQuestion(
            model=model,
            workload=workload,
            layout=layout,
            device=device,
            backend=backend,
            corrections=corrections,
            detail=detail,
            level=level,
        )
    return TrainQuestion(
        model=model,
        workload=resolve_peft_method(model, workload),
        layout=layout,
        device=device,
        backend=backend,
        corrections=corrections,
        detail=detail,
        level=level,
    )
