"""Flags that the contract's schemas describe."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from msgspec import Struct, inspect

from service.contract.schemas.methods import (
    EvaluationRequest,
    LoraRequest,
    OffloadRequest,
    PeftRequest,
)
from service.contract.schemas.serving import SpeculativeRequest
from service.contract.schemas.trainers import CriticRequest, MegatronRequest, RolloutRequest

_SCALARS: tuple[tuple[type[inspect.Type], type], ...] = (
    (inspect.IntType, int),
    (inspect.FloatType, float),
    (inspect.BoolType, bool),
    (inspect.StrType, str),
    (inspect.EnumType, str),
    (inspect.LiteralType, str),
    (inspect.ListType, list),
    (inspect.VarTupleType, list),
)
_NESTED: dict[str, type[Struct]] = {
    "critic": CriticRequest,
    "evaluation": EvaluationRequest,
    "lora": LoraRequest,
    "megatron": MegatronRequest,
    "offload": OffloadRequest,
    "peft": PeftRequest,
    "rollout": RolloutRequest,
    "speculative": SpeculativeRequest,
}
_OWN_FLAGS = frozenset({"inputs"})
"""Fields whose flags are written by hand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """One flag: its request path and its values."""

    path: tuple[str, ...]
    kinds: frozenset[type]
    help: str
    choices: tuple[str, ...]

    @property
    def dest(self) -> str:
        """Attribute under which argparse stores the value."""
        return ".".join(self.path)

    @property
    def option(self) -> str:
        """Name of the option, such as ``--lora-rank``.

        It is the path below its section, with dashes.
        """
        return "--" + "-".join(self.path[1:]).replace("_", "-")


def iter_flags(schema: type[Struct], prefix: tuple[str, ...]) -> Iterator[Flag]:
    """Yield a flag for every scalar of a schema."""
    kind = inspect.type_info(schema)
    assert isinstance(kind, inspect.StructType)  # noqa: S101 - what a schema is
    for field in kind.fields:
        path = (*prefix, field.encode_name)
        if field.encode_name in _OWN_FLAGS:
            continue
        if field.encode_name in _NESTED:
            yield from iter_flags(_NESTED[field.encode_name], path)
            continue
        types = list(_flatten(field.type))
        yield Flag(
            path=path,
            kinds=_collect_kinds(types),
            help=_find_description(field.type),
            choices=tuple(_iter_choices(types)),
        )


def _flatten(kind: inspect.Type) -> Iterator[inspect.Type]:
    match kind:
        case inspect.UnionType():
            for part in kind.types:
                yield from _flatten(part)
        case inspect.Metadata():
            yield from _flatten(kind.type)
        case _:
            yield kind


def _collect_kinds(types: list[inspect.Type]) -> frozenset[type]:
    return frozenset(
        python for kind in types for schema, python in _SCALARS if isinstance(kind, schema)
    )


def _iter_choices(types: list[inspect.Type]) -> Iterator[str]:
    for kind in types:
        match kind:
            case inspect.EnumType():
                yield from (str(member.value) for member in kind.cls)
            case inspect.LiteralType():
                yield from (str(value) for value in kind.values)
            case _:
                pass


def _find_description(kind: inspect.Type) -> str:
    match kind:
        case inspect.Metadata():
            return str((kind.extra_json_schema or {}).get("description", "")) or _find_description(
                kind.type
            )
        case inspect.UnionType():
            return next((text for part in kind.types if (text := _find_description(part))), "")
        case _:
            return ""


def translate_to_flags(message: str) -> str:
    """Replace field paths in a refusal by flags."""
    message = message.replace("gpu.memory_bytes", "--gpu-memory")
    for name, flag in (("images", "--image"), ("videos", "--video"), ("audio", "--audio")):
        message = message.replace(f"workload.inputs.{name}", flag)
    message = message.replace("model.num_labels", "--num-labels").replace("model.head", "--head")
    message = message.replace("say launcher:", "say --launcher:")
    message = re.sub(r" as launcher$", " by --launcher", message)
    return re.sub(
        r"\b(?:workload|layout|constraints)\.([a-z0-9_.]+)",
        lambda match: "--" + re.sub(r"[._]", "-", match[1]),
        message,
    )
