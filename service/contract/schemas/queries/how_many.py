"""Query parameters of GET /v1/how-many: every word of a question that a query can spell."""

from collections.abc import Mapping
from functools import reduce
from operator import or_
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from msgspec import UNSET, Meta, Struct, UnsetType, defstruct
from msgspec.structs import fields

from service.contract.schemas.calibrations import ClusterChoice
from service.contract.schemas.fields import (
    GpuMemory,
    GpuName,
    ModelText,
    SearchConfidence,
    Strict,
)
from service.contract.schemas.format_options import FormatWord, ImageName
from service.contract.schemas.how_many import Constraints
from service.contract.schemas.layouts import LayoutRequest
from service.contract.schemas.methods import LoraRequest
from service.contract.schemas.models import HubFile, HubId, HubRevision
from service.contract.schemas.serving import ServeRequest
from service.contract.schemas.workload import TrainRequest


def scalar(annotation: Any) -> Any:  # noqa: ANN401 - a type annotation
    """Return the part of an annotation that a query parameter can carry.

    None where there is none.
    """
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        inner = scalar(parts[0])
        return None if inner is None else Annotated[(inner, *parts[1:])]
    if origin in {Union, UnionType}:
        members = [part for part in map(scalar, parts) if part is not None]
        is_known = any(part is not UnsetType for part in members)
        return reduce(or_, members) if is_known else None
    is_composite = origin in {dict, list} or (
        isinstance(annotation, type) and issubclass(annotation, Struct)
    )
    return None if is_composite else annotation


def _list_query_fields(struct: type[Struct], prefix: str = "") -> dict[str, Any]:
    scalars = {f"{prefix}{field.encode_name}": scalar(field.type) for field in fields(struct)}
    return {name: kind | UnsetType for name, kind in scalars.items() if kind is not None}


TRAIN_WORDS = _list_query_fields(TrainRequest)
SERVE_WORDS = _list_query_fields(ServeRequest)
LORA_WORDS = _list_query_fields(LoraRequest, "lora_")
LAYOUT_WORDS = _list_query_fields(LayoutRequest)
CONSTRAINT_WORDS = _list_query_fields(Constraints)
_QUERY_FIELDS = {**SERVE_WORDS, **TRAIN_WORDS, **LORA_WORDS, **LAYOUT_WORDS, **CONSTRAINT_WORDS}
BODY_WORDS = frozenset(
    field.encode_name
    for struct in (TrainRequest, ServeRequest, LayoutRequest, Constraints)
    for field in fields(struct)
    if field.encode_name not in {*_QUERY_FIELDS, "lora"}
) | {"format_options"}
"""Words that are lists or objects through and through, which only a body can carry; an adapter is
spelt word by word.
"""


def nest_words(values: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the words of a question by the sections of a body.

    A word that is of neither the layout nor the constraints is the workload's.
    """
    lora = {name.removeprefix("lora_"): values[name] for name in LORA_WORDS if name in values}
    layout = {name: values[name] for name in LAYOUT_WORDS if name in values}
    constraints = {name: values[name] for name in CONSTRAINT_WORDS if name in values}
    placed = {*LORA_WORDS, *layout, *constraints}
    workload = {name: value for name, value in values.items() if name not in placed}
    return {
        "workload": workload | ({"lora": lora} if lora else {}),
        "layout": layout,
        "constraints": constraints,
    }


AnswerForm = Literal["json", "count"]
_FORM = Annotated[
    AnswerForm | UnsetType,
    Meta(
        description="`count`: the bare number as text, `nothing-fits` where no number is "
        "enough, for shells; `json`: JSON. Default what `Accept` prefers."
    ),
]


class AnswerQuery(Strict, frozen=True, kw_only=True, rename={"form": "as"}):
    """How a question that a body asks is answered."""

    form: _FORM = UNSET


HowManyQuery = defstruct(
    "HowManyQuery",
    [
        (
            "model",
            Annotated[
                ModelText | UnsetType,
                Meta(description="Name, Hugging Face id or size; else `hub` says the model."),
            ],
            UNSET,
        ),
        ("hub", HubId | UnsetType, UNSET),
        ("revision", HubRevision | UnsetType, UNSET),
        ("file", HubFile | UnsetType, UNSET),
        (
            "task",
            Annotated[
                str, Meta(pattern=r"^(train|serve)$(?!\n)", description="`train` or `serve`.")
            ],
        ),
        (
            "gpu",
            Annotated[
                GpuName | UnsetType,
                Meta(description="Name, alias or family; a family is answered per SKU."),
            ],
            UNSET,
        ),
        (
            "memory_bytes",
            Annotated[GpuMemory | UnsetType, Meta(description="In place of `gpu`: its memory.")],
            UNSET,
        ),
        ("cluster", ClusterChoice, UNSET),
        ("confidence", SearchConfidence, 0.95),
        ("form", _FORM, UNSET),
        (
            "format",
            Annotated[
                FormatWord | UnsetType,
                Meta(
                    description="Format of a scheduler that each candidate is rendered in; a body "
                    "takes several. The answer is JSON then."
                ),
            ],
            UNSET,
        ),
        (
            "container_image",
            Annotated[ImageName | UnsetType, Meta(description="With `format`: image of the pods.")],
            UNSET,
        ),
        *((name, kind, UNSET) for name, kind in sorted(_QUERY_FIELDS.items())),
    ],
    bases=(Strict,),
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    rename={"form": "as"},
    module=__name__,
)
"""Every word of the vocabulary that fits into a query string; an adapter's words begin with
``lora_``.
"""
