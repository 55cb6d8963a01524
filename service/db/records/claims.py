"""Values of who brought imported measurements."""

from dataclasses import dataclass
from datetime import datetime

from service.jobs.states import ClaimState


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Whether an imported measurement counts, and who brought it.

    ``source_key`` is the key's id or the token's subject, ``None`` where nobody needed one;
    ``reason`` says why it is held apart, and ``cluster`` where it is said to have run.
    """

    source: str
    source_key: str | None
    state: ClaimState
    reason: str | None = None
    decided_by: str | None = None
    decided_at: datetime | None = None
    cluster: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceCount:
    """Number of a source's measurements of a cluster by state."""

    source: str
    source_key: str | None
    cluster: str | None
    num_pending: int
    num_held: int
    num_approved: int
    num_withdrawn: int
    newest_at: datetime
