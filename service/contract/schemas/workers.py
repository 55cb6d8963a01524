"""Answers of /v1/workers."""

from typing import Annotated, Any

from msgspec import Meta

from service.contract.schemas.fields import Answer


class WorkerAnswer(Answer, frozen=True, kw_only=True):
    """One worker that was seen."""

    name: str
    host: str
    pid: int
    state: Annotated[
        str, Meta(description="`idle`, `busy`, `stopped` or `gone`.", examples=["idle"])
    ]
    devices: list[dict[str, Any]]
    versions: dict[str, Any]
    current_job: str | None
    started_at: str
    last_heartbeat: str


class WorkerPage(Answer, frozen=True, kw_only=True):
    """Workers, the most recently started first."""

    items: list[WorkerAnswer]
    next_cursor: str | None
