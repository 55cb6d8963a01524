"""Answers of the operational endpoints."""

from typing import Annotated, Literal

from msgspec import Meta

from service.contract.schemas.fields import Answer


class HealthAnswer(Answer, frozen=True, kw_only=True):
    """The process answers."""

    status: Literal["ok"] = "ok"


class ReadyAnswer(Answer, frozen=True, kw_only=True):
    """What this process needs, and whether it is there; without Redis only latency suffers."""

    status: Annotated[
        str,
        Meta(description="`ready`, `degraded` (Redis is away) or `not_ready`.", examples=["ready"]),
    ]
    database: Annotated[
        str, Meta(description="`ok`, `unreachable` or `not_migrated`.", examples=["ok"])
    ]
    redis: Annotated[
        str, Meta(description="`ok`, `unreachable` or `not_configured`.", examples=["ok"])
    ]


class VersionAnswer(Answer, frozen=True, kw_only=True):
    """What runs here."""

    name: str
    version: str
    python: str
