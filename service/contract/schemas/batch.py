"""Request and answer of POST /v1/fit/batch."""

from enum import StrEnum
from typing import Annotated, Any

from msgspec import UNSET, Meta, Raw, UnsetType

from service.contract.schemas.fields import Answer, Strict
from service.contract.schemas.fit import FitRequest

MAX_ITEMS = 10_000
_REFERENCE = "#/components/schemas/"
_ITEM = {
    "anyOf": [
        {"$ref": f"{_REFERENCE}FitAnswer"},
        {
            "type": "object",
            "required": ["problem"],
            "properties": {"problem": {"$ref": f"{_REFERENCE}Problem"}},
            "additionalProperties": False,
        },
    ],
}


class BatchDetail(StrEnum):
    """How much of each answer is worked out."""

    NUMBERS = "numbers"
    FULL = "full"


Detail = Annotated[
    BatchDetail | UnsetType,
    Meta(
        description="`numbers` (the default): verdict, bytes and intervals; lists that explain are "
        "empty, throughput is null, "
        "and the allocator is replayed only where that could turn the verdict, which is that of "
        "POST /v1/fit: `replayed` of each item says what was. `full`: what POST /v1/fit answers.",
    ),
]


class BatchRequest(Strict, frozen=True, kw_only=True):
    """Fit questions that are answered in one call."""

    items: Annotated[
        list[FitRequest], Meta(max_length=MAX_ITEMS, description="Each as POST /v1/fit takes it.")
    ]
    detail: Detail = UNSET


class BatchEnvelope(Strict, frozen=True, kw_only=True):
    """The same with items that are not read yet, so that a bad one spoils no other."""

    items: Annotated[list[Raw], Meta(max_length=MAX_ITEMS)]
    detail: Detail = UNSET


class BatchAnswer(Answer, frozen=True, kw_only=True):
    """One answer per item, in order: a fit, or the problem that POST /v1/fit would have answered
    with.
    """

    items: Annotated[list[Any], Meta(extra_json_schema={"items": _ITEM})]
