"""Field types of the contract: bounded numbers, patterned strings.

Every number has bounds and every string a pattern, so that neither NUL nor 10^400 comes in.
"""

from typing import Annotated, Any, TypeVar

from msgspec import UNSET, Meta, Struct, UnsetType

from service.estimator.memory.intervals.ends import HIGHEST, LEVEL, LOWEST
from service.estimator.values.heads import Head

MAX_DEGREE = 65_536
MAX_TOKENS = 100_000_000
MAX_BATCH = 65_536

# Python's $ also matches before a final newline; the look-ahead closes that hole and is legal
# ECMA-262, which OpenAPI speaks.
_END = r"$(?!\n)"

Name = Annotated[
    str,
    Meta(
        pattern=rf"^[a-z0-9][a-z0-9._-]{{0,62}}{_END}",
        description="Lower-case letters, digits, '.', '_' and '-'; at most 63 characters.",
        examples=["prod-a"],
    ),
]
ModelName = Annotated[
    str,
    Meta(
        pattern=rf"^[A-Za-z0-9][A-Za-z0-9._/-]{{0,127}}{_END}",
        description="Name of a stored model, or name or Hugging Face id of a catalogue model.",
        examples=["llama-2-7b"],
    ),
]
HeadWord = Annotated[
    Head,
    Meta(
        description=(
            "Head of the model, in place of the one that `architectures` of its config names: "
            "`none` (hidden states, as embedding models have them), `causal_lm`, `masked_lm`, "
            "`seq2seq_lm`, `sequence_classification` (rerankers too), `token_classification`, "
            "`question_answering`, `reward` (one score); `default` is the family's language model."
        ),
        examples=["sequence_classification"],
    ),
]
NumLabels = Annotated[
    Annotated[int, Meta(ge=1, le=10**6)],
    Meta(description="Labels of a `head` that classifies; default the config's, else 2."),
]
ModelText = Annotated[
    str,
    Meta(
        pattern=rf"^[!-~]([ -~]{{0,254}}[!-~])?{_END}",
        description=(
            "Name of a stored model; name, Hugging Face id or address on the hub of a catalogue "
            "model; its name in words (`llama 3.1 8b`); or a size (`13B`). How anything but a name "
            "or an id was read is the first of the answer's `assumptions`, and what may mean "
            "several models is refused with their names."
        ),
        examples=["llama-2-7b"],
    ),
]
HubName = Annotated[
    str,
    Meta(
        pattern=rf"^[A-Za-z0-9][A-Za-z0-9._-]{{0,95}}{_END}",
        description=(
            "Name of a stored model, or name or alias of a catalogue model; of a Hugging Face id "
            "one of its two parts."
        ),
        examples=["llama-2-7b"],
    ),
]
GpuName = Annotated[
    str,
    Meta(
        pattern=rf"^[!-~]([ -~]{{0,78}}[!-~])?{_END}",
        description=(
            "Name or alias of a GPU of the catalogue, with a MIG profile after a slash where a "
            "slice of it is meant: `A100-SXM4-80GB/1g.10gb`."
        ),
        examples=["A100-SXM4-80GB"],
    ),
]
NodeName = Annotated[
    str,
    Meta(
        pattern=rf"^[A-Za-z0-9][A-Za-z0-9._-]{{0,252}}{_END}",
        description="Host name of a node.",
        examples=["n1"],
    ),
]
Holder = Annotated[
    str,
    Meta(
        pattern=rf"^[!-~]([ -~]{{0,126}}[!-~])?{_END}",
        description="Who holds it: a team, a job, a person.",
        examples=["team-vision"],
    ),
]
MigProfileName = Annotated[
    str,
    Meta(
        pattern=rf"^[0-9]g\.[0-9]{{1,3}}gb{_END}",
        description="A MIG profile of the GPU.",
        examples=["1g.10gb"],
    ),
]
ModuleName = Annotated[
    str,
    Meta(
        pattern=rf"^[A-Za-z0-9_][A-Za-z0-9_.]{{0,127}}{_END}",
        description="Name of a linear layer.",
        examples=["q_proj"],
    ),
]
Version = Annotated[str, Meta(pattern=rf"^[0-9][0-9A-Za-z.+-]{{0,31}}{_END}", examples=["0.19.0"])]
Word = Annotated[
    str, Meta(pattern=rf"^[a-z][a-z0-9_-]{{0,39}}{_END}", description="One word of a vocabulary.")
]
Cursor = Annotated[
    str,
    Meta(
        pattern=rf"^[A-Za-z0-9_=.-]{{1,512}}{_END}",
        description="`next_cursor` of the previous page, as it was sent.",
    ),
]
PageLimit = Annotated[int, Meta(ge=1, le=200, description="Items on one page.")]

CalibrationKey = Annotated[
    str, Meta(pattern=rf"^[0-9a-z:_-]{{1,128}}{_END}", description="Key of a calibration.")
]
IfMatch = Annotated[
    str,
    Meta(
        pattern=rf'^(\*|"[!#-~]{{0,128}}"){_END}',
        description="The `ETag` that a GET returned, in double quotes, or `*`.",
        examples=["*"],
    ),
]
IfNoneMatch = Annotated[
    str,
    Meta(
        pattern=rf'^(\*|(W/)?"[!#-~]{{0,128}}"){_END}',
        description=(
            "The `ETag` of the version that is at hand: while it is the present one, the answer is "
            "304 without a body."
        ),
        examples=['"3684db1ae85a4e28b97928998f3a3712"'],
    ),
]
IdempotencyKey = Annotated[
    str,
    Meta(
        pattern=rf"^[!-~]{{1,128}}{_END}",
        description=(
            "The same key and body give the same result for 24 hours; with another body it is a "
            "conflict."
        ),
        examples=["3f0f2c9e-6a43-4c0e-9a52-1d5f6a2f7a10"],
    ),
]
ReservationId = Annotated[
    str,
    Meta(
        pattern=rf"^[0-9a-f]{{8}}(-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}{_END}",
        description="Id of a reservation.",
        examples=["3f0f2c9e-6a43-4c0e-9a52-1d5f6a2f7a10"],
    ),
]
MeasurementId = Annotated[
    str,
    Meta(
        pattern=rf"^[0-9a-f]{{8}}(-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}{_END}",
        description="Id of a measurement.",
        examples=["3f0f2c9e-6a43-4c0e-9a52-1d5f6a2f7a10"],
    ),
]
LastEventId = Annotated[
    str,
    Meta(
        pattern=rf"^[0-9]{{0,18}}{_END}",
        description="Replay what came after this event; empty replays everything.",
    ),
]

_AS_TEXT = Annotated[str, Meta(pattern=rf"^[ -~]{{1,40}}{_END}")]
Memory = Annotated[
    Annotated[int, Meta(ge=0, le=2**53)] | _AS_TEXT,
    Meta(
        description="Bytes as an integer, or with a binary unit: `80Gi`, `81920Mi`.",
        examples=["80Gi", 85_899_345_920],
    ),
]
GpuMemory = Annotated[
    Annotated[int, Meta(ge=1, le=2**53)] | _AS_TEXT,
    Meta(
        description="What a process can allocate: bytes as an integer, or with a binary unit.",
        examples=["80Gi", 85_899_345_920],
    ),
]

MAX_LAYERS = 4096
LayerCount = Annotated[int, Meta(ge=0, le=MAX_LAYERS)]
LayerCounts = Annotated[tuple[LayerCount, ...], Meta(min_length=1, max_length=MAX_LAYERS)]
PipelineLayout = Annotated[str, Meta(pattern=rf"^[EtmL|,()*0-9 ]{{1,1024}}{_END}")]
PartitionMethod = Annotated[str, Meta(pattern=rf"^(type:)?[A-Za-z0-9_|]{{1,64}}{_END}")]
Degree = Annotated[int, Meta(ge=1, le=MAX_DEGREE, description="Ranks along this axis.")]
Tokens = Annotated[int, Meta(ge=1, le=MAX_TOKENS)]
SUBSTITUTE = "substitute"
"""Key of the member without which a field is required, in what msgspec keeps of a type."""
Length = Annotated[Tokens | UnsetType, Meta(extra={SUBSTITUTE: "inputs"})]
Batch = Annotated[int, Meta(ge=1, le=MAX_BATCH)]
Count = Annotated[int, Meta(ge=1, le=2**31 - 1)]
Fraction = Annotated[float, Meta(gt=0, le=1)]
Confidence = Annotated[float, Meta(gt=0, lt=1)]
_CARRIED = f"{LOWEST:g} to {HIGHEST:g}, as far as residuals carry; {LEVEL:g} at most for engines"
FitConfidence = Annotated[
    Confidence,
    Meta(
        description=f"Level of the intervals: what `fits` does so at their upper end. {_CARRIED}."
    ),
]
SearchConfidence = Annotated[
    Confidence | None,
    Meta(
        description=(
            "Level of the intervals at whose upper end it must fit; `null` accepts what is tight. "
            f"{_CARRIED}."
        )
    ),
]

JsonObject = dict[str, Any]


class Strict(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of everything that comes in: unknown fields are refused."""


class NoQuery(Strict, frozen=True, kw_only=True):
    """No parameter at all."""


class PageQuery(Strict, frozen=True, kw_only=True):
    """Which page of a list."""

    limit: PageLimit = 50
    cursor: Cursor | UnsetType = UNSET


class Answer(Struct, frozen=True, kw_only=True):
    """Base of everything that goes out: clients ignore fields that they do not know."""


T = TypeVar("T")


def get_or_default(value: T | UnsetType, default: T) -> T:
    """Return the value that was sent, or the default."""
    return default if isinstance(value, UnsetType) else value


def get_or_none(value: T | UnsetType) -> T | None:
    """Return the value that was sent, or None."""
    return None if isinstance(value, UnsetType) else value


RecordingDocument = Annotated[
    JsonObject,
    Meta(
        description=(
            "A recording of transformers' own code, for a `model_type` without a module here: the "
            "document that `headroom models record` writes. Training in framework transformers is "
            "answered from it."
        ),
        examples=[{"format": 1, "model_type": "helium", "layers": [], "passes": {}}],
    ),
]
