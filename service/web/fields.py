"""Form fields, read off the structs that decode a request.

What the API takes, a form offers, and nothing else.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import msgspec
from msgspec import inspect

from service.contract.schemas.how_many import Constraints
from service.contract.schemas.imports.launches import LaunchImportRequest
from service.contract.schemas.layouts import LayoutRequest
from service.contract.schemas.plans import PlanRequest
from service.contract.schemas.serving import ServeRequest
from service.contract.schemas.workload import TrainRequest
from service.formats.manifests.format import Format
from service.formats.manifests.registry import FORMATS

FORMS: dict[str, type[msgspec.Struct]] = {
    "train": TrainRequest,
    "serve": ServeRequest,
    "layout": LayoutRequest,
    "constraints": Constraints,
}
PIPELINE_WORDS = frozenset(
    field
    for field in LayoutRequest.__struct_fields__
    if field == "partition_method" or ("pipeline" in field and field != "pipeline_parallel")
)
"""Words of how a pipeline's layers are spread."""
TRAINING_LAYOUT = frozenset(
    {
        "zero_stage",
        "sharding",
        "reshard_after_forward",
        "shard_embeddings_separately",
        "shard_size",
        "virtual_pipeline_stages",
        "sequence_parallel",
        "context_parallel_method",
        "pipeline_schedule",
    }
    | PIPELINE_WORDS,
)
"""Words of a layout that serving refuses, or says have no effect."""
NOT_ON_FORMS = frozenset({"inputs"})
"""Lists of objects, which a command line or a body says."""
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
    """One form field: its name and the values it takes.

    The name is that below its part of the request; ``options`` of ``words`` stand alone. ``kind``
    is ``integer``, ``number``, ``choice``, ``switch``, ``words`` (a word, or several between
    commas), ``size`` (bytes, or with a unit) or ``text``.
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
def get_fields(form: str) -> dict[str, Field]:
    """Return the fields of a form by name.

    In the order of the struct of that part of a request.
    """
    return {
        field.name: field
        for field in _iter_fields(_require_struct(inspect.type_info(FORMS[form])), "")
    }


@cache
def list_launchers() -> tuple[str, ...]:
    """Return the launchers whose words are read."""
    return tuple(sorted(_list_choices(LaunchImportRequest, "launcher")))


@cache
def list_objectives() -> tuple[str, ...]:
    """Return the objectives of a plan."""
    return _list_choices(PlanRequest, "objective")


def list_formats() -> tuple[Format, ...]:
    """Return the formats of schedulers, in the order of the offer."""
    return tuple(FORMATS.values())


def _list_choices(struct: type[msgspec.Struct], name: str) -> tuple[str, ...]:
    kinds = {field.name: field.type for field in _require_struct(inspect.type_info(struct)).fields}
    return _list_options(_unwrap(kinds[name])[0])


def _iter_fields(struct: inspect.StructType, prefix: str) -> Iterator[Field]:
    for field in struct.fields:
        kinds = _unwrap(field.type)
        name = f"{prefix}{field.encode_name}"
        if name in NOT_ON_FORMS:
            continue
        scalar = _describe_scalar(kinds)
        if scalar is not None:
            yield Field(
                name=name,
                label=_format_label(name),
                is_required=field.required,
                help=_find_help(field.type),
                **scalar,
            )
        else:
            yield from _iter_fields(_require_struct(kinds[0]), f"{name}.")


def _describe_scalar(kinds: list[inspect.Type]) -> dict[str, Any] | None:
    """Return the values of a field that is no object.

    Of a choice or an object, the choice.
    """
    if any(isinstance(kind, inspect.ListType | inspect.VarTupleType) for kind in kinds):
        literals = (kind for kind in kinds if isinstance(kind, inspect.LiteralType))
        return {
            "kind": "words",
            "options": tuple(option for kind in literals for option in _list_options(kind)),
        }
    for kind in kinds:
        if isinstance(kind, inspect.IntType | inspect.FloatType):
            return _describe_number(kind, has_unit=len(kinds) > 1)
        if isinstance(kind, inspect.EnumType | inspect.LiteralType):
            return {"kind": "choice", "options": _list_options(kind)}
        if isinstance(kind, inspect.BoolType | inspect.StrType):
            return {"kind": "switch" if isinstance(kind, inspect.BoolType) else "text"}
    return None


def _describe_number(
    kind: inspect.IntType | inspect.FloatType, *, has_unit: bool
) -> dict[str, Any]:
    """Return the bounds of a number.

    One that is also taken as text is a size like ``80Gi``.
    """
    if has_unit:
        return {"kind": "size"}
    word = "integer" if isinstance(kind, inspect.IntType) else "number"
    return {"kind": word, "least": kind.ge if kind.ge is not None else kind.gt, "most": kind.le}


def _list_options(kind: inspect.Type) -> tuple[str, ...]:
    if isinstance(kind, inspect.EnumType):
        return tuple(str(member.value) for member in kind.cls)
    assert isinstance(kind, inspect.LiteralType)  # noqa: S101 - the only other kind of choice
    return tuple(str(value) for value in kind.values)


def _unwrap(kind: inspect.Type) -> list[inspect.Type]:
    """Return the types of a field without metadata and absence."""
    if isinstance(kind, inspect.Metadata):
        return _unwrap(kind.type)
    if isinstance(kind, inspect.UnionType):
        return [bare for member in kind.types for bare in _unwrap(member)]
    # msgspec has no public class for UNSET: it is left out of type_info's unions as the custom type
    # that it is.
    return [] if isinstance(kind, inspect.NoneType) or type(kind) is inspect.CustomType else [kind]


def _require_struct(kind: inspect.Type) -> inspect.StructType:
    assert isinstance(kind, inspect.StructType)  # noqa: S101 - whatever is no scalar of these requests is a struct
    return kind


def _find_help(kind: inspect.Type) -> str:
    if isinstance(kind, inspect.Metadata) and kind.extra_json_schema is not None:
        return str(kind.extra_json_schema.get("description", "")) or _find_help(kind.type)
    return _find_help(kind.type) if isinstance(kind, inspect.Metadata) else ""


def _format_label(name: str) -> str:
    parts = [_ACRONYMS.get(word, word) for word in name.replace(".", "_").split("_")]
    parts = [word for word in parts if word != "num"]
    is_time = parts[-1] == "s"
    unit = " (s)" if is_time else " (USD)" if "cost" in parts else ""
    text = " ".join(parts[:-1] if is_time else parts) + unit
    return text[0].upper() + text[1:]
