"""Tables of what hooks decided about submitted jobs, and of their questions."""

import uuid
from datetime import datetime

from sqlalchemy import CheckConstraint, ForeignKey, Index
from sqlalchemy.orm import Mapped, mapped_column

from service.db.tables.base import Base, Json, make_membership_condition

VERDICTS = ("fits", "tight", "does_not_fit", "unknown")
ACTIONS = ("allow", "warn", "refuse", "change")


class HookQuestionRow(Base):
    """A question that a hook answered, as a body of ``POST /v1/fit``."""

    __tablename__ = "hook_questions"
    __table_args__ = (CheckConstraint("digest ~ '^[0-9a-f]{32}$'", name="digest"),)

    digest: Mapped[str] = mapped_column(primary_key=True)
    document: Mapped[Json]
    last_at: Mapped[datetime] = mapped_column(index=True)


class HookDecisionRow(Base):
    """A decision about a job.

    A scheduler that shows the same job again and again has one row for a while: ``num_times`` from
    ``created_at`` to ``last_at``.
    """

    __tablename__ = "hook_decisions"
    __table_args__ = (
        CheckConstraint(make_membership_condition("verdict", VERDICTS), name="verdict"),
        CheckConstraint(make_membership_condition("action", ACTIONS), name="action"),
        CheckConstraint("num_times >= 1 AND last_at >= created_at", name="times"),
        Index(None, "created_at", "id"),
        Index(None, "queue", "job_name"),
    )

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True)
    created_at: Mapped[datetime]
    last_at: Mapped[datetime]
    num_times: Mapped[int]
    door: Mapped[str]
    """The scheduler that asked."""
    mode: Mapped[str]
    user_name: Mapped[str | None]
    queue: Mapped[str | None]
    """Its namespace, account, project or partition."""
    job_name: Mapped[str | None]
    principal: Mapped[str]
    """Whose key the scheduler has."""
    request_id: Mapped[str]
    key_id: Mapped[uuid.UUID | None]
    digest: Mapped[str | None] = mapped_column(
        ForeignKey("hook_questions.digest", ondelete="SET NULL"), index=True
    )
    gpu: Mapped[str | None]
    verdict: Mapped[str]
    action: Mapped[str]
    needed_bytes: Mapped[int | None]
    usable_bytes: Mapped[int | None]
    sentence: Mapped[str]
