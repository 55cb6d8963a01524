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
    devices: Annotated[
        list[dict[str, Any]],
        Meta(
            description=(
                "What it measures on. Of a GPU `sku` is the catalogue's name, and "
                "`mig_parent_uuid` names the GPU of a slice."
            )
        ),
    ]
    observed: Annotated[
        dict[str, Any] | None,
        Meta(
            description=(
                "`used_bytes` and `foreign_processes` of its GPU when it was last idle: what "
                "others hold there. Null without a GPU."
            )
        ),
    ]
    versions: dict[str, Any]
    current_job: str | None
    started_at: str
    last_heartbeat: str


class WorkerPage(Answer, frozen=True, kw_only=True):
    """Workers, the most recently started first."""

    items: list[WorkerAnswer]
    next_cursor: str | None
