"""Requests and answers of /v1/hooks/decisions and /v1/hooks/questions."""

from datetime import datetime
from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from service.contract.schemas.fields import Answer, Cursor, JsonObject, PageLimit, Strict
from service.usecases.hooks.decision import Action, HookVerdict, Mode

QuestionDigest = Annotated[
    str,
    Meta(
        pattern=r"^[0-9a-f]{32}$(?!\n)",
        description="Digest of a question that a hook answered.",
        examples=["9a0364b9e99bb480dd25e1f0284c8555"],
    ),
]
_Text = Annotated[str, Meta(pattern=r"^[^\x00-\x1f\x7f]{1,128}$(?!\n)")]
_Time = Annotated[datetime, Meta(tz=True)]


class DecisionQuery(Strict, frozen=True, kw_only=True):
    """Which decisions of hooks, and which page of them."""

    limit: Annotated[PageLimit | UnsetType, Meta(description="Items on one page; default 50.")] = (
        UNSET
    )
    cursor: Cursor | UnsetType = UNSET
    door: Annotated[
        Annotated[str, Meta(pattern=r"^[a-z_]{1,40}$(?!\n)")] | UnsetType,
        Meta(description="The scheduler that asked.", examples=["slurm"]),
    ] = UNSET
    verdict: Annotated[
        Literal["fits", "tight", "does_not_fit", "unknown"] | UnsetType,
        Meta(description="What was answered."),
    ] = UNSET
    action: Annotated[Action | UnsetType, Meta(description="What became of the job.")] = UNSET
    user: Annotated[_Text | UnsetType, Meta(description="Who submitted the job.")] = UNSET
    queue: Annotated[
        _Text | UnsetType, Meta(description="Its namespace, account, project or partition.")
    ] = UNSET
    question: Annotated[QuestionDigest | UnsetType, Meta(description="Digest of the question.")] = (
        UNSET
    )
    format: Annotated[
        Literal["json", "csv"] | UnsetType,
        Meta(description="Pages of JSON, or CSV, which has no pages; `Accept` may say it."),
    ] = UNSET
    created_after: Annotated[_Time | UnsetType, Meta(description="RFC 3339.")] = UNSET
    created_before: Annotated[_Time | UnsetType, Meta(description="RFC 3339.")] = UNSET


class DecisionAnswer(Answer, frozen=True, kw_only=True):
    """A decision about a submitted job: who asked what, and what its user read."""

    at: Annotated[str, Meta(description="When it was decided, RFC 3339, UTC.")]
    last_at: Annotated[
        str, Meta(description="When it was last decided again, where a scheduler repeats itself.")
    ]
    num_times: Annotated[int, Meta(description="How many times, 1 where nobody repeats himself.")]
    door: Annotated[str, Meta(description="The scheduler that asked.")]
    mode: Annotated[Mode, Meta(description="What the hook was allowed to do.")]
    user: Annotated[str | None, Meta(description="Who submitted the job; null where unknown.")]
    queue: Annotated[
        str | None,
        Meta(description="Its namespace, account, project or partition; null where unknown."),
    ]
    job: Annotated[str | None, Meta(description="Name of the job; null where it has none.")]
    principal: Annotated[str, Meta(description="Whose key the scheduler has, or `local`.")]
    key_id: Annotated[str | None, Meta(description="Id of the key; null where none was used.")]
    request_id: Annotated[str, Meta(description="`X-Request-Id` of the answer.")]
    question: Annotated[
        str | None,
        Meta(
            description="Digest of the question, of which GET /v1/hooks/questions/{digest} has the "
            "text; null where nothing was understood."
        ),
    ]
    gpu: Annotated[str | None, Meta(description="The GPU that it was answered for; null if none.")]
    verdict: Annotated[HookVerdict, Meta(description="What was answered.")]
    action: Annotated[Action, Meta(description="What became of the job.")]
    needed_bytes: Annotated[
        int | None,
        Meta(description="Bytes of one GPU that it needs, at most where it fits; null if unknown."),
    ]
    usable_bytes: Annotated[
        int | None, Meta(description="Bytes of one GPU that it may use; null if unknown.")
    ]
    sentence: Annotated[str, Meta(description="The line that the user read; empty where none.")]


class DecisionPage(Answer, frozen=True, kw_only=True):
    """One page of decisions."""

    items: list[DecisionAnswer]
    next_cursor: str | None


class HookQuestionAnswer(Answer, frozen=True, kw_only=True):
    """A question that a hook answered."""

    digest: Annotated[str, Meta(description="Its digest.")]
    question: Annotated[
        JsonObject, Meta(description="A body of POST /v1/fit, which asks it again.")
    ]
