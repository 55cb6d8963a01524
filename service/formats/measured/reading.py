"""What a file of the field says about memory: readings with their resolution, where they were taken, and what was left out."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from service.estimator.values.errors import InvalidInputError

MIB = 1 << 20
GIB = 1 << 30
MAX_BYTES = 1 << 53
"""No GPU has as much, and a JSON client reads no more exactly."""


class Format(StrEnum):
    """Whose file it is."""

    SACCT = "sacct"
    PROMETHEUS = "prometheus"
    SNAPSHOT = "snapshot"
    MEMORY_STATS = "memory-stats"
    VLLM = "vllm"
    SGLANG = "sglang"
    NVIDIA_SMI = "nvidia-smi"
    TRAINER = "trainer"


class Quantity(StrEnum):
    """What was counted, in the words of a measurement's peaks; an engine's parts in those of its log."""

    ALLOCATED = "allocated_bytes"
    RESERVED = "reserved_bytes"
    DEVICE = "device_bytes"
    DEVICE_TOTAL_USED = "device_total_used_bytes"
    WEIGHTS = "weight_bytes"
    KV_POOL = "kv_pool_bytes"
    KV_POOL_TOKENS = "kv_pool_tokens"
    PROFILED_PEAK = "profiled_peak_bytes"
    NON_TORCH = "non_torch_bytes"
    CUDA_GRAPHS = "cuda_graph_bytes"
    BUDGET = "budget_bytes"


POOL = frozenset({Quantity.KV_POOL, Quantity.KV_POOL_TOKENS})
"""What an engine takes the smallest of over its ranks; of everything else the neediest rank counts."""


class MeasuredFormatError(InvalidInputError):
    """A file that is not what it is said to be; the message names the line and what was expected there."""

    def __init__(self, message: str, *, line: int | None = None, field: str | None = None) -> None:
        """Put the line before the message."""
        super().__init__(message if line is None else f"line {line}: {message}", field=field)
        self.line = line


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a reading was taken, as far as the file says; ``job`` is what one measurement is made of."""

    job: str | None = None
    name: str | None = None
    step: str | None = None
    host: str | None = None
    gpu: str | None = None
    gpu_uuid: str | None = None
    gpu_name: str | None = None
    pid: int | None = None
    process: str | None = None
    rank: str | None = None

    def label(self) -> str:
        """Return the place in words, nothing unknown among them."""
        words = (
            ("job", self.job),
            ("step", self.step),
            ("host", self.host),
            ("GPU", self.gpu if self.gpu is not None else self.gpu_uuid),
            ("process", self.pid),
            ("rank", self.rank),
        )
        return ", ".join(f"{word} {value}" for word, value in words if value is not None) or "the file"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One number: what the counter showed lies between ``low`` and ``high``; without ``high`` it is at least ``low``.

    ``sampled``: somebody looked now and then, so the true peak may lie between two of ``num_samples`` looks and be higher; 0
    where the file does not say how often.
    ``num_gpus`` tells how many GPUs it is the sum of, and ``job_gpus`` how many what ran there had in all, ``None`` that the
    file does not say.
    """

    quantity: Quantity
    value: int
    low: int
    high: int | None
    place: Place = field(default_factory=Place)
    line: int | None = None
    sampled: bool = False
    num_samples: int = 1
    num_gpus: int | None = 1
    job_gpus: int | None = None
    since: str | None = None
    until: str | None = None
    note: str = ""

    def __post_init__(self) -> None:
        """Refuse what no counter shows."""
        if not 0 <= self.low <= self.value or (self.high is not None and self.high < self.value):
            message = f"{self.quantity.value} {self.value} must lie between {self.low} and {self.high}"
            raise MeasuredFormatError(message, line=self.line)
        if self.value > MAX_BYTES:
            message = f"{self.quantity.value} is {self.value:.3g}, and no GPU has more than 2^53 bytes"
            raise MeasuredFormatError(message, line=self.line)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A part of a file that became no reading, and why."""

    what: str
    reason: str
    line: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """A whole file: its readings, what was left out, and what it tells of the run.

    ``environment`` names versions and hardware; ``said`` are settings in the words of a workload or layout, to be held
    against the question that the file is said to answer.
    """

    format: Format
    readings: tuple[Reading, ...]
    left_out: tuple[LeftOut, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    said: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    out_of_memory: bool = False


def rounded(value: float, unit: int, *, digits: int) -> tuple[int, int, int]:
    """Return value, lowest and highest bytes of a number that was printed with ``digits`` decimals of ``unit`` bytes."""
    half = unit / (2 * 10**digits)
    middle = value * unit
    return round(middle), max(0, round(middle - half)), round(middle + half)


def highest(readings: Iterable[Reading]) -> Reading:
    """Return the highest of several readings of one counter as one, which counts and dates them all."""
    every = tuple(readings)
    top = max(every, key=lambda reading: reading.value)
    dates = sorted(date for reading in every for date in (reading.since, reading.until) if date is not None)
    return Reading(
        quantity=top.quantity,
        value=top.value,
        low=top.low,
        high=top.high,
        place=top.place,
        line=top.line,
        sampled=any(reading.sampled for reading in every),
        num_samples=sum(reading.num_samples for reading in every),
        num_gpus=top.num_gpus,
        job_gpus=top.job_gpus,
        since=dates[0] if dates else None,
        until=dates[-1] if dates else None,
        note=top.note,
    )
