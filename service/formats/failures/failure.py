"""Failures for want of memory, as a log tells them.

Numbers are spans of the printed digits; nothing here is computed from a model.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class FailureSpeaker(StrEnum):
    """Program whose words a failure is told in."""

    TORCH = "torch"
    VLLM = "vllm"
    SGLANG = "sglang"
    TGI = "tgi"
    LLAMA_CPP = "llama_cpp"
    NCCL = "nccl"
    CUDA = "cuda"
    PYTHON = "python"
    LAUNCHER = "launcher"
    SLURM = "slurm"
    KERNEL = "kernel"
    KUBERNETES = "kubernetes"
    RAY = "ray"
    OLLAMA = "ollama"
    TENSORRT_LLM = "tensorrt_llm"
    XLA = "xla"
    LMDEPLOY = "lmdeploy"
    PADDLE = "paddle"
    SNAPSHOT = "snapshot"


class FailedMemory(StrEnum):
    """Memory that ran out."""

    GPU = "gpu"
    HOST = "host"
    NONE = "none"
    """None: the program failed of something else."""


class FailureQuantity(StrEnum):
    """Number of a failure, by its name in the answer."""

    REQUESTED = "requested_bytes"
    TOTAL = "total_bytes"
    FREE = "free_bytes"
    LIMIT = "limit_bytes"
    ALLOCATED = "allocated_bytes"
    UNALLOCATED = "unallocated_bytes"
    RESERVED = "reserved_bytes"
    PRIVATE_POOLS = "private_pool_bytes"
    PROCESS = "process_bytes"
    OTHER_PROCESS = "other_process_bytes"
    LARGEST_FREE_BLOCK = "largest_free_block_bytes"
    WEIGHTS = "weight_bytes"
    BUDGET = "budget_bytes"
    KV_POOL = "kv_pool_bytes"
    KV_NEEDED = "kv_cache_needed_bytes"
    KV_POOL_TOKENS = "kv_pool_tokens"
    MAX_MODEL_LEN = "max_model_len"
    LONGEST_MODEL_LEN = "longest_model_len"
    NUM_SEQUENCES = "num_sequences"
    NUM_TOKENS = "num_tokens"
    GPU_MEMORY_FRACTION = "gpu_memory_fraction"
    HOST_RESIDENT = "host_resident_bytes"
    HOST_LIMIT = "host_limit_bytes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Value between two ends, as far as printed digits tell."""

    low: float
    value: float
    high: float

    def __add__(self, other: "Span") -> "Span":
        """Return the sum of two independent values."""
        return Span(
            low=self.low + other.low, value=self.value + other.value, high=self.high + other.high
        )

    def __sub__(self, other: "Span") -> "Span":
        """Return the difference of two independent values."""
        return Span(
            low=self.low - other.high, value=self.value - other.value, high=self.high - other.low
        )


NOTHING = Span(low=0, value=0, high=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Amount:
    """One printed number with its line."""

    quantity: FailureQuantity
    span: Span
    line: int | None
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessUse:
    """Memory of one process on the GPU.

    ``pid`` is ``None`` of the process that failed, which does not print its own.
    """

    pid: int | None
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One call of a traceback, with its line of code."""

    file: str
    function: str
    code: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One failure: who tells it, what ran out, and its numbers.

    ``kind`` names the wording; ``release`` the releases of the speaker that word it so.
    """

    speaker: FailureSpeaker
    memory: FailedMemory
    kind: str
    line: int | None
    amounts: tuple[Amount, ...] = ()
    processes: tuple[ProcessUse, ...] = ()
    frames: tuple[Frame, ...] = ()
    rank: str | None = None
    gpu: int | None = None
    release: str = ""
    vendor: str = "nvidia"
    subject: str = ""
    """What the failing program was about to make, where its words say so."""

    def get(self, quantity: FailureQuantity) -> Span | None:
        """Return a number of the failure, ``None`` where it prints none."""
        return find_span(self.amounts, quantity)


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """Memory that grew from step to step."""

    num_steps: int
    first: Span
    last: Span
    first_line: int
    last_line: int
    rank: str | None = None

    @property
    def bytes_per_step(self) -> float:
        """Mean growth between two printed steps."""
        return (self.last.value - self.first.value) / (self.num_steps - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureLog:
    """All that a log tells of failures.

    ``context`` are numbers that an engine printed before it failed.
    """

    failures: tuple[Failure, ...]
    context: tuple[Amount, ...] = ()
    growth: Growth | None = None
    num_lines: int = 0
    engine: str | None = None
    notes: tuple[str, ...] = field(default_factory=tuple)


def find_span(amounts: Iterable[Amount], quantity: FailureQuantity) -> Span | None:
    """Return the last number of a quantity, ``None`` where there is none."""
    spans = [amount.span for amount in amounts if amount.quantity is quantity]
    return spans[-1] if spans else None


UNITS: Mapping[str, int] = {
    "byte": 1,
    "bytes": 1,
    "B": 1,
    "kB": 1 << 10,
    "KB": 1 << 10,
    "KiB": 1 << 10,
    "MB": 1 << 20,
    "MiB": 1 << 20,
    "GB": 1 << 30,
    "GiB": 1 << 30,
    "TiB": 1 << 40,
}
"""All programs that are read divide by powers of 1024, whatever they call it."""


def make_span(number: str, unit: str, *, decimals: int = 0) -> Span:
    """Return the span of printed digits.

    ``decimals`` is how many the program rounds to, where it does not print trailing zeros.
    """
    scale = UNITS[unit]
    digits = max(decimals, len(number.partition(".")[2]))
    value = float(number) * scale
    half = 0.0 if scale == 1 else scale / (2 * 10**digits)
    return Span(low=round(value - half), value=round(value), high=round(value + half))


def make_amount(
    quantity: FailureQuantity,
    number: str,
    unit: str,
    *,
    line: int | None,
    decimals: int = 0,
    text: str = "",
) -> Amount:
    """Return a printed number of bytes."""
    return Amount(
        quantity=quantity,
        span=make_span(number, unit, decimals=decimals),
        line=line,
        text=text or f"{number} {unit}",
    )


def make_exact_amount(quantity: FailureQuantity, number: str, *, line: int | None) -> Amount:
    """Return a number that was printed in full."""
    value = float(number) if "." in number else int(number.replace(",", ""))
    return Amount(
        quantity=quantity, span=Span(low=value, value=value, high=value), line=line, text=number
    )
