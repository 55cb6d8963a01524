"""Readings of memory from files of other tools.

Each has its resolution and where it was taken; the parts of a file that became no reading are
listed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from service.estimator.values.errors import InvalidInputError

MIB = 1 << 20
GIB = 1 << 30
MAX_BYTES = 1 << 53
"""No GPU has as much, and a JSON client reads no more exactly."""


class Format(StrEnum):
    """Format of a measured file."""

    SACCT = "sacct"
    PROMETHEUS = "prometheus"
    SNAPSHOT = "snapshot"
    MEMORY_STATS = "memory-stats"
    VLLM = "vllm"
    SGLANG = "sglang"
    NVIDIA_SMI = "nvidia-smi"
    TRAINER = "trainer"
    NODE = "node"


class Quantity(StrEnum):
    """Counted quantity, named as in a measurement's peaks.

    An engine's parts are named as in its log.
    """

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
"""Quantities of which an engine takes the smallest over its ranks; of everything else the neediest
rank counts.
"""


class MeasuredFormatError(InvalidInputError):
    """A file that does not have its declared or detected format.

    The message names the line and what was expected there.
    """

    def __init__(self, message: str, *, line: int | None = None, field: str | None = None) -> None:
        """Put the line before the message."""
        super().__init__(message if line is None else f"line {line}: {message}", field=field)
        self.line = line


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Place where a reading was taken, as far as known.

    ``job`` is what one measurement is made of.
    """

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
        """Return the known parts of the place in words."""
        parts = (
            ("job", self.job),
            ("step", self.step),
            ("host", self.host),
            ("GPU", self.gpu if self.gpu is not None else self.gpu_uuid),
            ("process", self.pid),
            ("rank", self.rank),
        )
        return (
            ", ".join(f"{word} {value}" for word, value in parts if value is not None) or "the file"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One counter reading with its bounds.

    The true value lies between ``low`` and ``high``; without ``high`` it is at least ``low``.

    ``sampled``: somebody looked now and then, so the true peak may lie between two of
    ``num_samples`` looks and be higher; 0 where the file does not say how often.

    ``num_gpus`` tells how many GPUs it is the sum of, and ``job_gpus`` how many what ran there had
    in all, ``None`` that the file does not say.
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
        """Refuse values that no counter shows."""
        if not 0 <= self.low <= self.value or (self.high is not None and self.high < self.value):
            message = (
                f"{self.quantity.value} {self.value} must lie between {self.low} and {self.high}"
            )
            raise MeasuredFormatError(message, line=self.line)
        if self.value > MAX_BYTES:
            message = (
                f"{self.quantity.value} is {self.value:.3g}, and no GPU has more than 2^53 bytes"
            )
            raise MeasuredFormatError(message, line=self.line)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A part of a file that became no reading, and why."""

    what: str
    reason: str
    line: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """A parsed file: readings, omissions and facts of the run.

    ``environment`` names versions and hardware; ``settings`` are in the words of a workload or
    layout, to be compared with the question that the file is said to answer.
    """

    format: Format
    readings: tuple[Reading, ...]
    left_out: tuple[LeftOut, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    out_of_memory: bool = False


def compute_rounding_bounds(value: float, unit: int, *, digits: int) -> tuple[int, int, int]:
    """Return value, lowest and highest bytes of a printed number.

    It was printed with ``digits`` decimals of ``unit`` bytes.
    """
    half = unit / (2 * 10**digits)
    middle = value * unit
    return round(middle), max(0, round(middle - half)), round(middle + half)


def merge_highest(readings: Iterable[Reading]) -> Reading:
    """Merge readings of one counter into the highest.

    The result counts and dates them all.
    """
    merged = tuple(readings)
    top = max(merged, key=lambda reading: reading.value)
    dates = sorted(
        date for reading in merged for date in (reading.since, reading.until) if date is not None
    )
    return Reading(
        quantity=top.quantity,
        value=top.value,
        low=top.low,
        high=top.high,
        place=top.place,
        line=top.line,
        sampled=any(reading.sampled for reading in merged),
        num_samples=sum(reading.num_samples for reading in merged),
        num_gpus=top.num_gpus,
        job_gpus=top.job_gpus,
        since=dates[0] if dates else None,
        until=dates[-1] if dates else None,
        note=top.note,
    )
