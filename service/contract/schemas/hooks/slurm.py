"""Requests and answers of Slurm's hook."""

from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta, Struct

from service.contract.schemas.fields import Answer, JsonObject
from service.usecases.hooks.decision import Action, HookVerdict


class SlurmSubmission(Struct, frozen=True, kw_only=True):
    """A job that is about to be handed to Slurm."""

    options: Annotated[JsonObject, Meta(description="What `slurm.json_cli_options` returns.")]
    command: Annotated[str, Meta(description="`sbatch`, `srun` or `salloc`.")] = "sbatch"
    script: Annotated[str | None, Meta(description="Text of the script; null without one.")] = None
    user: Annotated[str | None, Meta(description="Who submits it; null where unknown.")] = None
    environment: Annotated[
        dict[str, str],
        Meta(description="Variables of whoever submits it; `HEADROOM_QUESTION` is enough."),
    ] = {}


class SlurmAnswer(Answer, frozen=True, kw_only=True):
    """What becomes of a job of Slurm's."""

    action: Annotated[Action, Meta(description="`allow`, `warn`, `refuse` or `change`.")]
    verdict: Annotated[HookVerdict, Meta(description="Whether the job fits.")]
    sentence: Annotated[
        str, Meta(description="The line for its user; of `allow`, for logs alone. May be empty.")
    ]
    gpu: Annotated[
        str | None, Meta(description="SKU that it was answered for; null where there is none.")
    ]
    options: Annotated[
        Mapping[str, str],
        Meta(
            description="Options that the job gets: its GPUs where they are changed, and the "
            "comment that names its question to its nodes."
        ),
    ]
