"""The fields of the forms, read off the structs that decode a request: what the API takes, a form offers, and nothing else."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import msgspec
from msgspec import inspect

from service.contract.schemas.how_many import Constraints
from service.contract.schemas.plans import PlanRequest
from service.contract.schemas.workload import LayoutRequest, ServeRequest, TrainRequest

FORMS: dict[str, type[msgspec.Struct]] = {
    "train": TrainRequest,
    "serve": ServeRequest,
    "layout": LayoutRequest,
    "constraints": Constraints,
}
TRAINING_LAYOUT = frozenset(
    {
        "zero_stage",
        "sharding",
        "reshard_after_forward",
        "shard_embeddings_separately",
        "shard_size",
        "virtual_pipeline_stages",
        "sequence_parallel",
    }
)
"""Words of a layout that serving refuses, or says have no effect."""
_ACRONYMS = {
    "kv": "KV",
    "lora": "LoRA",
    "peft": "PEFT",
    "gpu": "GPU",
    "gpus": "GPUs",
    "zero": "ZeRO",
    "nvme": "NVMe",
    "fp32": "FP32",
    "float8": "FP8",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One field: its name below its part of the request, and what it takes; ``options`` of ``words`` stand alone.

    ``kind`` is ``integer``, ``number``, ``choice``, ``switch``, ``words`` (a word, or several between commas),
    ``size`` (bytes, or with a unit) or ``text``.
    """

    name: str
    label: str
    kind: str
    help: str = ""
    options: tuple[str, ...] = ()
    least: float | None = None
    most: float | None = None
    is_required: bool = False


@cache
def fields_of(form: str) -> dict[str, Field]:
    """Return the fields of a part of a request by name, in the order of its struct."""
    return {field.name: field for field in _fields(_struct(inspect.type_info(FORMS[form])), "")}


@cache
def objectives() -> tuple[str, ...]:
    """Return what a plan may be best at."""
    kinds = {field.name: field.type for field in _struct(inspect.type_info(PlanRequest)).fields}
    return _options(_bare(kinds["objective"])[0])


def _fields(struct: inspect.StructType, prefix: str) -> Iterator[Field]:
    for field in struct.fields:
        kinds = _bare(field.type)
        name = f"{prefix}{field.encode_name}"
        scalar = _scalar(kinds)
        if scalar is not None:
            yield Field(name=name, label=_label(name), is_required=field.required, help=_help(field.type), **scalar)
        else:
            yield from _fields(_struct(kinds[0]), f"{name}.")


def _scalar(kinds: list[inspect.Type]) -> dict[str, Any] | None:
    """Return what a field takes that is no object; of a choice or an object, the choice."""
    if any(isinstance(kind, inspect.ListType) for kind in kinds):
        whole = (kind for kind in kinds if isinstance(kind, inspect.LiteralType))
        return {"kind": "words", "options": tuple(option for kind in whole for option in _options(kind))}
    for kind in kinds:
        if isinstance(kind, inspect.IntType | inspect.FloatType):
            return _number(kind, has_unit=len(kinds) > 1)
        if isinstance(kind, inspect.EnumType | inspect.LiteralType):
            return {"kind": "choice", "options": _options(kind)}
        if isinstance(kind, inspect.BoolType | inspect.StrType):
            return {"kind": "switch" if isinstance(kind, inspect.BoolType) else "text"}
    return None


def _number(kind: inspect.IntType | inspect.FloatType, *, has_unit: bool) -> dict[str, Any]:
    """Return what a number may be; one that is also taken as text is a size like ``80Gi``."""
    if has_unit:
        return {"kind": "size"}
    word = "integer" if isinstance(kind, inspect.IntType) else "number"
    return {"kind": word, "least": kind.ge if kind.ge is not None else kind.gt, "most": kind.le}


def _options(kind: inspect.Type) -> tuple[str, ...]:
    if isinstance(kind, inspect.EnumType):
        return tuple(str(member.value) for member in kind.cls)
    assert isinstance(kind, inspect.LiteralType)  # noqa: S101 - the only other kind of choice
    return tuple(str(value) for value in kind.values)


def _bare(kind: inspect.Type) -> list[inspect.Type]:
    """Return the kinds that a field may have, without what describes them and without absence."""
    if isinstance(kind, inspect.Metadata):
        return _bare(kind.type)
    if isinstance(kind, inspect.UnionType):
        return [bare for member in kind.types for bare in _bare(member)]
    # msgspec has no public class for UNSET: it is left out of type_info's unions as the custom type that it is.
    return [] if isinstance(kind, inspect.NoneType) or type(kind) is inspect.CustomType else [kind]


def _struct(kind: inspect.Type) -> inspect.StructType:
    assert isinstance(kind, inspect.StructType)  # noqa: S101 - whatever is no scalar of these requests is a struct
    return kind


def _help(kind: inspect.Type) -> str:
    if isinstance(kind, inspect.Metadata) and kind.extra_json_schema is not None:
        return str(kind.extra_json_schema.get("description", "")) or _help(kind.type)
    return _help(kind.type) if isinstance(kind, inspect.Metadata) else ""


def _label(name: str) -> str:
    words = [_ACRONYMS.get(word, word) for word in name.replace(".", "_").split("_")]
    words = [word for word in words if word != "num"]
    is_time = words[-1] == "s"
    unit = " (s)" if is_time else " (USD)" if "cost" in words else ""
    text = " ".join(words[:-1] if is_time else words) + unit
    return text[0].upper() + text[1:]
