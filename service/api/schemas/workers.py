"""Answers of /v1/workers and /v1/calibrations."""

from typing import Annotated, Any

from msgspec import UNSET, Meta, UnsetType

from service.api.schemas.fields import Answer, CalibrationKey, Cursor, PageLimit, Strict


class CalibrationQuery(Strict, frozen=True, kw_only=True):
    """Which calibrations, and which page of them."""

    key: Annotated[CalibrationKey | UnsetType, Meta(description="Only those of this key.")] = UNSET

    limit: Annotated[PageLimit, Meta(description="Items on one page.")] = 50
    cursor: Cursor | UnsetType = UNSET


class WorkerAnswer(Answer, frozen=True, kw_only=True):
    """One worker that was seen."""

    name: str
    host: str
    pid: int
    state: Annotated[str, Meta(description="`idle`, `busy`, `stopped` or `gone`.", examples=["idle"])]
    devices: list[dict[str, Any]]
    versions: dict[str, Any]
    current_job: str | None
    started_at: str
    last_heartbeat: str


class WorkerPage(Answer, frozen=True, kw_only=True):
    """Workers, the most recently started first."""

    items: list[WorkerAnswer]
    next_cursor: str | None


class CalibrationAnswer(Answer, frozen=True, kw_only=True):
    """What measurements taught about one key."""

    id: str
    key: str
    quantity: str
    scope: dict[str, Any]
    correction: dict[str, Any]
    evidence: Annotated[list[str], Meta(description="The measurements it rests on.")]
    created_at: str


class CalibrationPage(Answer, frozen=True, kw_only=True):
    """Calibrations, newest first."""

    items: list[CalibrationAnswer]
    next_cursor: str | None
