"""Remedies in the answers to fits, how-many questions and plans; rules of thumb."""

from typing import Annotated

from msgspec import Meta

from service.contract.schemas.fields import Answer, JsonObject


class RemedyAnswer(Answer, frozen=True, kw_only=True):
    """A set of changes that was tried: what it saves, what comes of it, what it alters in the
    result, and what it costs in time and money.

    Asked by itself, it gives the same. Those that fit come first, the cheapest per token first;
    ratios are of this change over the question without it (1.33 is a third more).
    """

    change: Annotated[
        JsonObject,
        Meta(
            description=(
                "Fields of the workload and the layout with their new values, and `gpu` where it "
                "is another kind."
            )
        ),
    ]
    saves_bytes: Annotated[
        int, Meta(description="Bytes per GPU that the question needs less, never negative.")
    ]
    verdict: Annotated[str, Meta(description="`fits`, `tight` or `does_not_fit`.")]
    effects: Annotated[
        list[str],
        Meta(
            description=(
                "What the change alters in the result, as weights that are rounded; empty where "
                "the same is computed."
            )
        ),
    ]
    step_time_s: Annotated[
        float | None,
        Meta(
            description=(
                "Seconds of a step, or of a decode step; null where the GPU's rates are unknown."
            )
        ),
    ]
    tokens_per_second: Annotated[
        float | None,
        Meta(
            description=(
                "Tokens that the whole job makes in a second; null where the GPU's rates are "
                "unknown."
            )
        ),
    ]
    time_ratio: Annotated[
        float | None,
        Meta(
            description=(
                "Time per token of the whole job: below 1 it is done sooner. Where one of both was "
                "measured and the other was not, both are as the machine's other times predict "
                "them. Null where two kinds of GPU cannot be compared."
            )
        ),
    ]
    slowdown: Annotated[
        float | None,
        Meta(
            description=(
                "GPU time per token: on twice the GPUs at the same rate it is 2, though "
                "`time_ratio` is 1. Null where two kinds of GPU cannot be compared."
            )
        ),
    ]
    cost_ratio: Annotated[
        float | None,
        Meta(
            description=(
                "Money per token, by which remedies are ordered: GPU time per token times the "
                "price of a GPU hour. On GPUs of one kind it is the GPU time; null where one of "
                "two kinds has no price."
            )
        ),
    ]
    usd_per_million_tokens: Annotated[
        float | None,
        Meta(description="By the catalogue's prices; null without a price or rates."),
    ]
    gpu: Annotated[str, Meta(description="Kind of GPU with this change.")]
    num_gpus: Annotated[int, Meta(description="GPUs with this change.")]


class RemedySearchAnswer(Answer, frozen=True, kw_only=True):
    """How far remedies were looked for, and what came of it."""

    num_estimates: Annotated[
        int, Meta(description="Configurations that were estimated, each on the model itself.")
    ]
    max_estimates: Annotated[int, Meta(description="The most that a search may estimate.")]
    num_changes: Annotated[int, Meta(description="The most changes that were taken together.")]
    is_complete: Annotated[
        bool,
        Meta(description="False where the limit of estimates ended the search before its end."),
    ]
    conclusion: Annotated[
        str, Meta(description="How many remedies fit, or that nothing known does, and why.")
    ]


class RuleAnswer(Answer, frozen=True, kw_only=True):
    """What a rule of thumb or a well-known article says, beside our answer; `off_by` is
    rule / ours - 1.
    """

    name: Annotated[str, Meta(examples=["16 bytes per parameter"])]
    bytes: int | None
    our_bytes: int | None
    seconds: float | None
    our_seconds: float | None
    off_by: float
    why: str
    source: str
