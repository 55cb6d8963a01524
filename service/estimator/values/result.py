"""Explained estimates.

Bytes are integers; components of the deciding instant sum exactly to ``device_bytes``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum, auto

from service.estimator.values.classes.quick_init import init_quickly
from service.estimator.values.corrections import SHIPPED_SPEEDS, SpeedRatios

EVALUATION = "evaluation"
"""Instant of an evaluation between steps, which has no graph."""


class Detail(Enum):
    """Level of detail of an answer."""

    NUMBERS = auto()
    """bytes and intervals: for searches, which ask thousands of times and show a few answers"""
    LEAST = auto()
    """the numbers below which no replay of the allocator can be: of one that finds neither holes
    nor anything to round up
    """
    FULL = auto()
    """components with formulas and sources as well"""
    REPLAYED = auto()
    """and the allocator replayed, where the order of a pass is known: some milliseconds the first
    time
    """

    @property
    def is_explained(self) -> bool:
        """Whether components and warnings are asked for."""
        return self is not Detail.NUMBERS

    @property
    def is_replayed(self) -> bool:
        """Whether the allocator is replayed where its order is known."""
        return self is Detail.REPLAYED


class Basis(StrEnum):
    """Evidence behind a component."""

    EXACT = "exact"
    FORMULA = "formula"
    MEASURED = "measured"
    EXTRAPOLATED = "extrapolated"


@dataclass(frozen=True, slots=True)
class Component:
    """One part of the bytes at the deciding instant.

    It has its formula in numbers and the source of the formula.
    """

    name: str
    bytes: int
    basis: Basis
    formula: str
    source: str


@dataclass(frozen=True, slots=True)
class Instant:
    """Highest allocated bytes during one part of the step.

    ``parts`` are the components that are alive then.
    """

    name: str
    allocated_bytes: int
    parts: Mapping[str, int] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Stage:
    """One pipeline stage: its peak and its bytes between steps."""

    pipeline_stage: int
    allocated_bytes: int
    steady_bytes: int
    layers: tuple[int, ...] = ()
    """Layers of each of its chunks, where a split of the pipeline decides them."""
    micro_batches_in_flight: tuple[int, ...] = ()
    """Micro-batches of each chunk whose tensors are kept at the highest point of both passes."""


@dataclass(frozen=True, slots=True)
class Interval:
    """Bounds in bytes at the level of the estimate."""

    low: int
    high: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointBytes:
    """A checkpoint on disk, by content."""

    weights: int
    optimizer: int
    save_total_limit: int | None = None
    """Checkpoints that are kept; None is all of them."""

    @property
    def total(self) -> int:
        """Bytes of the checkpoint in all."""
        return self.weights + self.optimizer

    @property
    def disk(self) -> int | None:
        """Bytes of the kept ones and of the next one.

        That is written before one is deleted.
        """
        limit = self.save_total_limit
        return None if limit is None else self.total * (limit + 1)


@init_quickly
@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """Memory that a serving replica needs and has.

    ``None`` where an engine without a pool has no such number.
    """

    kv_bytes_per_token: int
    kv_cache_bytes: int
    required_bytes: int
    budget_bytes: int
    kv_pool_bytes: int | None = None
    kv_pool_tokens: int | None = None
    max_num_sequences: int | None = None
    max_concurrency: float | None = None
    """Sequences of the longest length that the pool holds at once."""
    smallest_bytes: int | None = None
    """Bytes of its budget that an engine with a pool needs to start: its fixed parts and one
    sequence of the longest length.
    """
    required_high_bytes: int | None = None
    """Upper end of ``required_bytes``, where its parts are measured ones."""
    engine_version: str | None = None
    """Release that the answer is of; None where releases are not told apart."""


class Bound(StrEnum):
    """The side that decides how long a step takes."""

    HOST = "host"
    GPU = "gpu"


@init_quickly
@dataclass(frozen=True, slots=True, kw_only=True)
class Throughput:
    """Time of one step (training) or of one decode step (serving).

    What generates nothing has one pass over all prompts as its step.

    ``host_time_s`` is what the host needs to launch its kernels, ``gpu_time_s`` what the GPU needs
    to run them; waiting for other GPUs is part of neither.
    """

    step_time_s: float
    tokens_per_second: float
    tokens_per_second_per_gpu: float
    mfu: float
    hours_for_tokens: float | None = None
    prefill_time_s: float | None = None
    host_time_s: float
    gpu_time_s: float
    basis: str = "analytic"

    @property
    def bound(self) -> Bound:
        """The side that is busy for longer."""
        return Bound.HOST if self.host_time_s > self.gpu_time_s else Bound.GPU


@dataclass(frozen=True, slots=True, kw_only=True)
class InputTokens:
    """Tokens of one of ``count`` equal images, videos or sounds.

    ``tokens`` are those of the sequence, of which ``features`` come from the encoder; the encoder
    reads ``pieces`` with ``positions`` in all.
    """

    kind: str
    count: int
    tokens: int
    features: int
    pieces: int
    positions: int


@init_quickly
@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Memory of the worst rank in the steady state (second step on).

    Its process is alone on its GPU.
    """

    num_gpus: int
    allocated_bytes: int
    reserved_bytes: int
    device_bytes: int
    steady_bytes: int
    allocated_interval: Interval
    reserved_interval: Interval
    device_interval: Interval
    peak_instant: str
    components: tuple[Component, ...]
    """Empty in an answer of numbers only."""
    instants: tuple[Instant, ...]
    stages: tuple[Stage, ...]
    phases: tuple[Instant, ...] = ()
    """Training: the highest bytes of forward, backward (each with its part of the loss) and step,
    as a profiler counts.
    """
    worst_pipeline_stage: int = 0
    interval_level: float = 0.95
    interval_kind: str = "training"
    """The kind of answer whose residuals the intervals stand on."""
    replayed: bool = False
    """Whether the allocator was replayed over this very order of calls."""
    allocated_kind: str = ""
    reserved_kind: str = ""
    """The same of the allocated and of the reserved bytes, where they have kinds of their own."""
    host_bytes_per_node: int = 0
    host_memory_bytes: int | None = None
    """Memory of a node, where the question states it; the bytes that are kept there must fit in it.
    """
    nvme_bytes_per_node: int = 0
    nvme_bytes: int | None = None
    """The same of its NVMe."""
    checkpoint: CheckpointBytes | None = None
    serving: Serving | None = None
    rollout: Serving | None = None
    """Pool of the engine that a policy's trainer has beside it."""
    inputs: tuple[InputTokens, ...] = ()
    """What the images, videos and audio of a sequence become, in the order of the question."""
    assumptions: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    basis: str = "analytic"
    calibration: str | None = None
    calibration_level: str = "none"
    """Origin of the measurements: this ``point``, this ``key``, its ``family``, all (``global``),
    or ``none``.
    """
    num_measurements: int = 0
    bases: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Basis of each corrected quantity; what is not here is analytic."""
    cluster_quantities: tuple[str, ...] = ()
    """Quantities that a named cluster's own measurements correct."""
    step_time_ratio: float = 1.0
    """Measured over analytic time, where steps like this one were timed."""
    prefill_time_ratio: float = 1.0
    """The same of the prefill of a served batch."""
    speeds: SpeedRatios = SHIPPED_SPEEDS
    """Speeds of the machine, where other steps were timed on it."""
    machine_speeds: SpeedRatios = SHIPPED_SPEEDS
    """The same where this very step was timed, beside which they are not counted."""
