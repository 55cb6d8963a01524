"""Requests and answers of the hook that `headroom kueue` asks."""

from typing import Annotated, Any

from msgspec import Meta

from service.contract.schemas.fields import Answer, JsonObject, Strict
from service.usecases.hooks.decision import Action, HookVerdict

MAX_ALTERNATIVES = 16


class KueueRequest(Strict, frozen=True, kw_only=True):
    """A job that Kueue holds."""

    objects: Annotated[
        list[JsonObject],
        Meta(
            min_length=1,
            max_length=MAX_ALTERNATIVES,
            description=(
                "The job as an object of Kubernetes; of one that may get several kinds of GPUs "
                "once for each, the preferred first."
            ),
        ),
    ]
    is_placed: Annotated[
        bool,
        Meta(
            description=(
                "Whether the job runs on the GPUs that its node selectors name, also where its "
                "question names another."
            )
        ),
    ] = False
    fails_closed: Annotated[
        bool,
        Meta(
            description=(
                "Whether it is refused where nothing can be said, also by a server that is open."
            )
        ),
    ] = False
    is_last: Annotated[
        bool,
        Meta(
            description=(
                "Whether it is decided now, by what is known: whoever asks does not ask again."
            )
        ),
    ] = False


class KueueAnswer(Answer, frozen=True, kw_only=True):
    """What becomes of a job that Kueue holds."""

    choice: Annotated[
        int, Meta(description="Place in `objects` of what is decided: the first that fits.")
    ]
    verdict: Annotated[HookVerdict, Meta(description="What was answered.")]
    action: Annotated[Action, Meta(description="What becomes of the job.")]
    sentence: Annotated[str, Meta(description="The line that its user reads; empty where none.")]
    gpu: Annotated[str | None, Meta(description="The GPU that it was answered for; null if none.")]
    operations: Annotated[
        list[dict[str, Any]],
        Meta(
            description=(
                "The JSON patch (RFC 6902) that gives the job the GPUs that it needs; empty where "
                "it keeps its own."
            )
        ),
    ]
    is_transient: Annotated[
        bool,
        Meta(
            description=(
                "Whether the server was too busy, or is yet looking for a number of GPUs: another "
                "try may be answered."
            )
        ),
    ]
