"""Decisions of hooks about submitted jobs, as values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID, uuid4


@dataclass(frozen=True, slots=True, kw_only=True)
class HookDecision:
    """A decision about a job, with its question and line.

    ``digest`` and ``question``, a body of ``POST /v1/fit``, are ``None`` where nothing was
    understood, or where it is too long to be stored.
    """

    id: UUID = field(default_factory=uuid4)
    door: str
    mode: str
    user_name: str | None
    queue: str | None
    job_name: str | None
    principal: str
    request_id: str
    key_id: UUID | None
    digest: str | None
    question: Mapping[str, object] | None
    gpu: str | None
    verdict: str
    action: str
    needed_bytes: int | None
    usable_bytes: int | None
    sentence: str
    before: tuple[str, Mapping[str, object]] | None = None
    """Digest and question of a job before its GPUs were changed, to which its line links."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatedDecision:
    """A decision that was made ``num_times`` between two ages.

    ``questions`` are others that were answered alike, by their digests.
    """

    decision: HookDecision
    num_times: int
    questions: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    first_age: timedelta
    last_age: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredDecision:
    """A decision as it was stored, without its question's text."""

    id: UUID
    created_at: datetime
    last_at: datetime
    num_times: int
    door: str
    mode: str
    user_name: str | None
    queue: str | None
    job_name: str | None
    principal: str
    request_id: str
    key_id: UUID | None
    digest: str | None
    gpu: str | None
    verdict: str
    action: str
    needed_bytes: int | None
    usable_bytes: int | None
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionFilter:
    """Filter of decisions; ``None`` lists all."""

    door: str | None = None
    verdict: str | None = None
    action: str | None = None
    user_name: str | None = None
    queue: str | None = None
    digest: str | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None
