"""Explanation of a failure: causes, and changes that would have fitted."""

from dataclasses import dataclass
from enum import StrEnum

from service.formats.failures.failure import Failure, FailureLog, Span
from service.formats.failures.places import Place
from service.usecases.postmortem.balance import Balance


class CauseName(StrEnum):
    """Cause of a failure."""

    NOT_MEMORY = "not_memory"
    HOST_MEMORY = "host_memory"
    SHARED_MEMORY = "shared_memory"
    IMPOSSIBLE_SIZE = "impossible_size"
    LARGER_THAN_GPU = "larger_than_gpu"
    SMALLER_GPU = "smaller_gpu"
    MEMORY_LIMIT = "memory_limit"
    FRAGMENTATION = "fragmentation"
    OTHER_PROCESS = "other_process"
    REFUSED_THOUGH_FREE = "refused_though_free"
    OUTSIDE_ALLOCATOR = "outside_allocator"
    LEAK = "leak"
    CACHE_SHARE_TOO_SMALL = "cache_share_too_small"
    CACHE_SHARE_TOO_LARGE = "cache_share_too_large"
    SEQUENCE_TOO_LONG = "sequence_too_long"
    MODEL_TOO_LARGE = "model_too_large"
    BATCH_TOO_LARGE = "batch_too_large"
    TOO_LARGE = "too_large"


class CauseCertainty(StrEnum):
    """Certainty of a cause."""

    CERTAIN = "certain"
    LIKELY = "likely"
    POSSIBLE = "possible"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """One reason of a failure, with the numbers that speak for it."""

    name: CauseName
    certainty: CauseCertainty
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change that helps against a cause.

    ``setting`` is what to write, where that is one word; ``frees_bytes`` what it frees at least;
    ``fits`` whether the failed request would then have fitted, ``None`` where the log does not
    say enough.
    """

    cause: CauseName
    action: str
    setting: str | None = None
    frees_bytes: int | None = None
    fits: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """A failure explained by its log alone."""

    failure: Failure
    log: FailureLog
    place: Place | None
    balance: Balance
    causes: tuple[Cause, ...]
    changes: tuple[Change, ...]
    engine: str | None = None

    @property
    def cause(self) -> Cause:
        """The cause that explains the failure best."""
        return self.causes[0]


def at_least(span: Span, other: Span) -> bool:
    """Return whether a value is at least another, whatever digits leave open."""
    return span.low >= other.high
