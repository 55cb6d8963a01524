"""The estimate before the bytes outside of the allocator."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from service.estimator.memory.allocator.replay import ReplayResult
from service.estimator.values.classes.quick_init import init_quickly
from service.estimator.values.result import CheckpointBytes, Component, Instant, Serving, Stage
from service.estimator.values.workload import Allocator


@init_quickly
@dataclass(frozen=True, slots=True, kw_only=True)
class PartialEstimate:
    """Estimate of a task before the bytes outside of the allocator.

    ``linked_gpus`` share communicators; ``components`` is called when the answer is to explain
    itself.
    """

    num_gpus: int
    linked_gpus: int
    instants: tuple[Instant, ...]
    peak: Instant
    steady_bytes: int
    components: Callable[[], Iterable[Component]]
    phases: tuple[Instant, ...] = ()
    checkpoint: CheckpointBytes | None = None
    serving: Serving | None = None
    approximate: bool = False
    gathers: bool = False
    kind: str = "training"
    """The kind of answer whose residuals make the intervals."""
    context_kind: str | None = None
    """``run_kind``, where it is not the kind of answer."""
    family: str | None = None
    """The model type whose recorded runs judge a replay, empty where none of them was alike; None
    where no recorded run judges the answer at all.
    """
    near_family: str = ""
    """The model type where its recorded runs were like it but for an optimizer, kernels, a loss,
    quantised weights or the number of ranks.
    """
    allocator: Allocator = Allocator.DEFAULT
    replayed: ReplayResult | None = None
    host_bytes_per_node: int = 0
    host_memory_bytes: int | None = None
    """Memory of a node, where the question states it."""
    nvme_bytes_per_node: int = 0
    nvme_bytes: int | None = None
    """NVMe of a node, where the question states it."""
    stream_bytes: int = 0
    """Bytes beyond the peak in the allocator's pools of streams other than the computing one."""
    stages: tuple[Stage, ...] = ()
    """Every pipeline stage; empty where there is only one."""
    worst_stage: int = 0
    assumptions: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    in_room: dict[object, Any] = field(default_factory=dict, init=False, compare=False, repr=False)
    """What is told of it on GPUs with room, by what else that rests on."""
    merged: dict[object, Any] = field(default_factory=dict, init=False, compare=False, repr=False)
    """All components, by those that are not its own."""

    @property
    def run_kind(self) -> str:
        """The kind of run that decides its context."""
        return self.context_kind or self.kind
