"""Requests and answers of /v1/models."""

from collections.abc import Mapping, Sequence
from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from service.contract.schemas.fields import (
    Answer,
    Cursor,
    HeadWord,
    JsonObject,
    Name,
    NumLabels,
    PageLimit,
    RecordingDocument,
    Strict,
)

GgufDocument = Annotated[
    JsonObject,
    Meta(
        description=(
            "Header of a GGUF file: `metadata` by key, without the arrays of the tokenizer, and "
            "`tensors`, each `{name, type, shape}` with the length of its rows first, as the file "
            "has them; of a split file the tensors of all parts. Its bytes are counted tensor by "
            "tensor."
        ),
        examples=[
            {
                "metadata": {"general.architecture": "llama", "llama.block_count": 32},
                "tensors": [{"name": "token_embd.weight", "type": "Q4_K", "shape": [4096, 32000]}],
            }
        ],
    ),
]
_HUB_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}"
HubId = Annotated[
    str,
    Meta(
        pattern=rf"^{_HUB_NAME}(/{_HUB_NAME})?$(?!\n)",
        description=(
            "Id of a model on the Hugging Face hub or its mirror, which this server reads where "
            "its operator allows it. The header `Hub-Token` sends a token of the caller's."
        ),
        examples=["org/name"],
    ),
]
HubToken = Annotated[
    str,
    Meta(
        pattern=r"^[!-~]{1,512}$(?!\n)",
        description=(
            "The caller's token of the hub, for a `model` on it that is private or gated. It goes "
            "to the hub's own host and nowhere else, and is neither stored nor logged."
        ),
    ),
]
HubRevision = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]{0,127}$(?!\n)",
        description="Branch, tag or commit on the hub; default `main`.",
        examples=["main"],
    ),
]
HubFile = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._/ -]{0,254}$(?!\n)",
        description="One of several GGUF files of a repository, the first part of a split one.",
        examples=["model-Q4_K_M.gguf"],
    ),
]
SafetensorsIndex = Annotated[
    JsonObject,
    Meta(
        description=(
            "A model.safetensors.index.json: its total_size must be the tree's, or a warning says "
            "why not."
        )
    ),
]
SafetensorsHeader = Annotated[
    JsonObject,
    Meta(
        description=(
            "The JSON header of a single safetensors file, in place of an index: a warning names "
            "the tensors that differ from the tree."
        )
    ),
]
Origin = Annotated[
    str,
    Meta(
        pattern=r"^[!-~]([ -~]{0,254}[!-~])?$(?!\n)",
        description="Where the sender read it, such as a file or a commit; told in the answer.",
        examples=["./model.gguf"],
    ),
]


class ModelSource(Strict, frozen=True, kw_only=True):
    """Where a model's structure comes from: exactly one of the first five; what its files hold, if
    that is to be checked; its head, where the config does not say the right one.
    """

    hf_config: Annotated[
        JsonObject | UnsetType, Meta(description="A Hugging Face config.json.")
    ] = UNSET
    architecture: Annotated[
        JsonObject | UnsetType, Meta(description="Our own spec, as GET shows it.")
    ] = UNSET
    gguf: GgufDocument | UnsetType = UNSET
    recording: RecordingDocument | UnsetType = UNSET
    hub: HubId | UnsetType = UNSET
    revision: HubRevision | UnsetType = UNSET
    file: HubFile | UnsetType = UNSET
    safetensors_index: SafetensorsIndex | UnsetType = UNSET
    safetensors_header: SafetensorsHeader | UnsetType = UNSET
    head: HeadWord | UnsetType = UNSET
    num_labels: NumLabels | UnsetType = UNSET


class ModelCreate(Strict, frozen=True, kw_only=True):
    """A model to be stored."""

    name: Annotated[Name, Meta(description="Name to store it under; no name of the catalogue.")]
    source: ModelSource


class ModelReplace(Strict, frozen=True, kw_only=True):
    """A new revision of a stored model."""

    source: ModelSource
    name: Annotated[Name | UnsetType, Meta(description="If given, the name in the path.")] = UNSET


class ModelQuery(Strict, frozen=True, kw_only=True):
    """Which page of the models."""

    limit: Annotated[PageLimit, Meta(description="Items on one page.")] = 50
    cursor: Cursor | UnsetType = UNSET


class RevisionQuery(Strict, frozen=True, kw_only=True):
    """Which revision of a model."""

    revision: Annotated[
        Annotated[int, Meta(ge=1, le=2**31 - 1)] | UnsetType,
        Meta(description="Number of a revision; default the newest."),
    ] = UNSET


class ParametersAnswer(Answer, frozen=True, kw_only=True):
    """Numbers of parameters; `active` are those that one token uses."""

    total: int
    active: int
    embedding: Annotated[
        int,
        Meta(description="Of the vocabulary: the input table, and the head where it has its own."),
    ]
    by_module: Mapping[str, int]


class GgufTensorAnswer(Answer, frozen=True, kw_only=True):
    """One tensor of a GGUF file."""

    name: Annotated[str, Meta(examples=["blk.0.attn_q.weight"])]
    type: Annotated[str, Meta(description="Its format, by ggml's name.", examples=["Q4_K"])]
    shape: Annotated[list[int], Meta(description="Sizes, the length of its rows first.")]
    bytes: int


class GgufAnswer(Answer, frozen=True, kw_only=True):
    """Bytes of a GGUF file's tensors, counted one by one, without the padding between them."""

    total_bytes: int
    num_elements: Annotated[int, Meta(description="Elements of all tensors.")]
    by_type: Annotated[dict[str, int], Meta(description="Bytes by format.")]
    by_kind: Annotated[dict[str, int], Meta(description="Bytes by kind of module.")]
    by_layer: Annotated[list[int], Meta(description="Bytes of each layer, in order.")]
    tensors: Annotated[list[GgufTensorAnswer], Meta(description="Every tensor, as in the file.")]


class HubAnswer(Answer, frozen=True, kw_only=True):
    """Where on a hub a model was read."""

    id: Annotated[str, Meta(description="Id of the repository.", examples=["org/name"])]
    commit: Annotated[str, Meta(description="The commit that `revision` was then.")]
    file: Annotated[str | None, Meta(description="The GGUF file; null for a config.json.")]


class RecordingProgressAnswer(Answer, frozen=True, kw_only=True):
    """How far the recording of a model is, or why there is none."""

    job: Annotated[
        str,
        Meta(
            description=(
                "Id of its job; `GET /v1/measurements/{id}/events` follows it, and `DELETE "
                "/v1/measurements/{id}` cancels it."
            )
        ),
    ]
    progress: Annotated[float, Meta(description="Share that is done, from 0 to 1.")]
    phase: Annotated[
        str, Meta(description="What is recorded now, or what it waits for.", examples=["half"])
    ]
    reason: Annotated[
        str | None,
        Meta(description="Why it was refused, in the recorder's words; null while it goes on."),
    ]


class ModelAnswer(Answer, frozen=True, kw_only=True):
    """One model at one revision; revisions are never changed."""

    name: str
    revision: int
    origin: Annotated[str, Meta(description="`stored` or `catalogue`.", examples=["stored"])]
    state: Annotated[
        str,
        Meta(
            description=(
                "`ready`; `recording` while a trace worker records its type; `refused` where that "
                "cannot be, or was cancelled: storing its config again queues it anew."
            ),
            examples=["ready"],
        ),
    ] = "ready"
    recording: Annotated[
        RecordingProgressAnswer | None,
        Meta(description="How far its recording is; null where it is `ready`."),
    ] = None
    family: str
    created_at: Annotated[str | None, Meta(description="RFC 3339, UTC; null for the catalogue.")]
    parameters: Annotated[
        ParametersAnswer | None,
        Meta(
            description=(
                "Numbers of parameters; null until those of a model that is being recorded are "
                "counted."
            )
        ),
    ]
    weight_bytes: Annotated[
        dict[str, int],
        Meta(description="Bytes of the weights by number format; empty until they are counted."),
    ]
    architecture: JsonObject
    aliases: Sequence[str] = ()
    source: Annotated[
        str | None,
        Meta(description="Where the catalogue took the config.json from; null for a stored model."),
    ] = None
    gguf: Annotated[
        GgufAnswer | None,
        Meta(description="What its GGUF file holds; null where it came as something else."),
    ] = None
    hub: Annotated[
        HubAnswer | None, Meta(description="Where on a hub it was read; null for what was sent.")
    ] = None
    warnings: list[str]


class ModelItem(Answer, frozen=True, kw_only=True):
    """One model in a list."""

    name: str
    revision: int
    origin: str
    family: Annotated[str | None, Meta(description="Null where this version knows no such family.")]
    created_at: str | None
    aliases: Sequence[str] = ()
    supported: Annotated[bool, Meta(description="Whether questions about it can be answered.")]
    state: Annotated[
        str, Meta(description="`ready`, `recording` or `refused`, as of the model itself.")
    ] = "ready"


class ModelPage(Answer, frozen=True, kw_only=True):
    """Stored models, newest first, then the catalogue by name."""

    items: list[ModelItem]
    next_cursor: str | None
