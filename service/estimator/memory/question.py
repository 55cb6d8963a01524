"""Questions as the backends get them, resolved once."""

from dataclasses import dataclass, fields
from math import prod
from operator import attrgetter

from service.estimator.memory.image_inputs import resolve_length
from service.estimator.memory.intervals.ends import LEVEL
from service.estimator.memory.peft_methods import resolve_peft_method
from service.estimator.model.architecture import Architecture
from service.estimator.model.positions import count_served_positions
from service.estimator.values.backend import Backend, Task
from service.estimator.values.classes.quick_init import init_quickly
from service.estimator.values.corrections import Corrections
from service.estimator.values.device import Device
from service.estimator.values.dtypes import DType
from service.estimator.values.layout import Layout
from service.estimator.values.result import Detail
from service.estimator.values.workload import ServeWorkload, TrainWorkload, Workload

_DEMAND = frozenset({"num_sequences", "prompt_tokens", "output_tokens"})
_get_replica_fields = attrgetter(
    *(item.name for item in fields(ServeWorkload) if item.name not in _DEMAND)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Setting:
    """Setting of a workload and the detail of its answer."""

    model: Architecture
    """The model as its backend loads it."""
    layout: Layout
    device: Device
    backend: Backend
    corrections: Corrections | None = None
    detail: Detail = Detail.FULL
    level: float = LEVEL
    effects: tuple[str, ...] = ()
    """What is said of the workload's options, behind all other warnings."""
    release: str | None = None
    """Release of the engine that an explained answer stands for."""

    def list_warnings(self, dtype: DType) -> tuple[str, ...]:
        """Return the warnings of a format on the GPU, then the options'."""
        return (*self.device.list_warnings(dtype), *self.effects)


@init_quickly
@dataclass(frozen=True, slots=True, kw_only=True)
class TrainQuestion(_Setting):
    """Training step to estimate.

    A method of PEFT is the adapters that it makes.
    """

    workload: TrainWorkload

    @property
    def task(self) -> Task:
        """Kind of question."""
        return Task.TRAIN

    @property
    def num_tokens(self) -> int:
        """Tokens of one micro batch."""
        return prod(self.workload.rows)


@init_quickly
@dataclass(frozen=True, slots=True, kw_only=True)
class ServeQuestion(_Setting):
    """Serving replica to estimate."""

    workload: ServeWorkload

    @property
    def task(self) -> Task:
        """Kind of question."""
        return Task.SERVE

    @property
    def accepted_tokens(self) -> int:
        """Longest sequence that an engine accepts.

        A longer one that is asked for counts instead.
        """
        tokens = self.workload.prompt_tokens + self.workload.output_tokens
        positions = count_served_positions(self.model.spec, self.workload.engine)
        return max(tokens, self.workload.max_model_len or positions)

    @property
    def replica_key(self) -> tuple[object, ...]:
        """Key of a replica without its model and sequences."""
        device = self.device
        return (
            _get_replica_fields(self.workload),
            self.layout,
            device.name,
            device.usable_bytes,
            device.capacity_bytes,
            device.compute_capability,
            device.num_processors,
        )


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
    effects: tuple[str, ...] = (),
    release: str | None = None,
) -> Question:
    """Return a question of a model as its backend loads it.

    Raises InvalidInputError and NotModelledError for a method of PEFT without a default.
    """
    workload = resolve_length(model, workload)
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
            effects=effects,
            release=release,
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
        effects=effects,
        release=release,
    )
