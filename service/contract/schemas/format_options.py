"""Words of formats, and what an installation calls things in them."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from service.contract.schemas.fields import Strict

FormatWord = Literal[
    "kubernetes",
    "dra",
    "kueue",
    "podgroup",
    "jobset",
    "trainjob",
    "lws",
    "disaggregatedset",
    "rayjob",
    "rayservice",
    "llminferenceservice",
    "dynamo",
    "volcano",
    "kai",
    "hami",
    "runai",
    "slinky",
    "slurm",
    "ray",
    "skypilot",
    "dstack",
]
ImageName = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._:/@-]{0,254}$(?!\n)",
        description="A container image, with its registry and its tag or digest.",
        examples=["vllm/vllm-openai:v0.33.0"],
    ),
]


_LABEL_KEY = r"^([a-z0-9.-]{1,253}/)?[A-Za-z0-9][A-Za-z0-9._-]{0,62}$(?!\n)"
_LABEL_NAME = r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$(?!\n)"


class FormatOptionsRequest(Strict, frozen=True, kw_only=True):
    """Names and queues of an installation."""

    queue: Annotated[
        Annotated[str, Meta(pattern=_LABEL_NAME)] | UnsetType,
        Meta(description="Queue of Kueue, KAI Scheduler or Volcano; default that of each, if any."),
    ] = UNSET
    topology: Annotated[
        Annotated[str, Meta(pattern=_LABEL_KEY)] | UnsetType,
        Meta(description="Label of a level of nodes that Kueue keeps a job within."),
    ] = UNSET
    gate: Annotated[
        bool,
        Meta(description="Let Kueue hold the Job while `headroom.dev/fit` gates it."),
    ] = False
    namespace: Annotated[
        Annotated[str, Meta(pattern=_LABEL_NAME)] | UnsetType,
        Meta(description="Namespace of Kubernetes' objects; default that of who applies them."),
    ] = UNSET
    name: Annotated[
        Annotated[str, Meta(pattern=r"^[a-z]([-a-z0-9]{0,38}[a-z0-9])$(?!\n)")] | UnsetType,
        Meta(description="Name of the job and its objects; default one of the model's."),
    ] = UNSET
