"""Answers of the operational endpoints and of /v1/workers, and every refusal.

A refusal is a problem document (RFC 9457), exactly as it is sent.
"""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

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


class FieldError(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One offending value: its dotted path, what is wrong with it and, where there is one, the
    nearest right word.
    """

    field: Annotated[
        str, Meta(description="Dotted path of the value.", examples=["workload.micro_batch_size"])
    ]
    message: Annotated[str, Meta(description="What is wrong and what would be right.")]
    nearest: Annotated[
        str | None, Meta(description="The nearest known name; null where none is near.")
    ] = None


class Problem(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A problem document; further members depend on `type`."""

    type: Annotated[
        str, Meta(description="Stable slug of this kind of problem.", examples=["invalid-request"])
    ]
    title: Annotated[str, Meta(description="One sentence for this kind of problem.")]
    status: Annotated[int, Meta(description="The HTTP status.", examples=[422])]
    detail: Annotated[str, Meta(description="What happened in this case and what would be right.")]
    instance: Annotated[str, Meta(description="Path of the request.", examples=["/v1/fit"])]
    errors: Annotated[tuple[FieldError, ...], Meta(description="The offending values.")] = ()


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
