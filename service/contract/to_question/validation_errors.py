"""Validation errors in words: dotted path, nearest name, expected value."""

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from difflib import get_close_matches
from enum import StrEnum
from functools import cache
from typing import TypeVar

import msgspec
from msgspec import inspect

from service.base.errors import InvalidRequestError
from service.base.typed import convert
from service.contract.missing_fields import MISSING, explain_missing
from service.contract.other_words import explain_other_word
from service.contract.schemas.fields import SUBSTITUTE
from service.estimator.values.optimizers import UNMODELLED, OptimizerName

_PLACED = re.compile(r"(?=.*`\Z)(?P<what>.*?) - at `(?:key` in `)?\$(?P<path>.*)`", re.DOTALL)
"""A message with a path; what does not end like one is not looked through."""
_STEP = re.compile(r"\.(?P<key>[^.\[\]]+)|\[(?P<index>[0-9]+)\]|\[\.\.\.\]")
_UNKNOWN_FIELD = re.compile(r"Object contains unknown field `(?P<name>.*)`", re.DOTALL)
_UNKNOWN_VALUE = re.compile(r"Invalid (?:enum )?value '?(?P<word>.*?)'?", re.DOTALL)
_MISSING_FIELD = re.compile(r"Object missing required field `(?P<name>.*)`")
_TYPES = {
    "int": "an integer",
    "float": "a number",
    "str": "a string",
    "bool": "true or false",
    "null": "null",
}
_TYPES |= {"object": "an object", "array": "an array"}
_MAX_SHOWN = 80
_MAX_LISTED = 40

T = TypeVar("T")


def decode(document: object, kind: type[T]) -> T:
    """Decode a plain document by a schema of the contract.

    Refuses in the contract's words.
    """
    try:
        return convert(document, kind)
    except msgspec.ValidationError as error:
        raise explain(error, kind, document) from None


def explain(
    error: msgspec.ValidationError,
    kind: object,
    document: object,
    *,
    spell: Callable[[str], str] = str,
) -> InvalidRequestError:
    """Return the refusal for a msgspec validation error.

    ``document`` is what was to be decoded as a ``kind``; ``spell`` turns a path of the document
    into the name that the caller used.
    """
    match = _PLACED.fullmatch(str(error))
    what, path = (match["what"], match["path"]) if match else (str(error), "")
    types, value = _follow(path, [inspect.type_info(kind)], document)
    path = path.lstrip(".")
    field, message, nearest = _classify(what, path, types, value)
    missing = (field, *_list_also_missing(what, path, types, value))
    if message == MISSING:
        message = _add_examples(types, missing)
    fields = [spell(name) for name in missing]
    detail = f"{', '.join(fields)}: {message}" if field else message
    rest = {"message": message} | ({"nearest": nearest} if nearest else {})
    return InvalidRequestError(detail, errors=[{"field": name} | rest for name in fields])


@cache
def list_text_fields(kind: Hashable) -> frozenset[str]:
    """Return the fields of a struct that accept text only."""
    struct = inspect.type_info(kind)
    assert isinstance(struct, inspect.StructType)  # noqa: S101 - a programmer's mistake, not a caller's
    return frozenset(
        field.encode_name for field in struct.fields if _is_only_text(list(_flatten([field.type])))
    )


def _is_only_text(types: list[inspect.Type]) -> bool:
    numeric = (inspect.IntType, inspect.FloatType)
    return any(isinstance(kind, inspect.StrType) for kind in types) and not any(
        isinstance(kind, numeric) for kind in types
    )


def find_nearest_name(name: str, candidates: Iterable[str]) -> str | None:
    """Return the candidate that looks most like ``name``."""
    return next(iter(get_close_matches(name, list(candidates), n=1, cutoff=0.5)), None)


def _classify(
    what: str, path: str, types: list[inspect.Type], value: object
) -> tuple[str, str, str | None]:
    if match := _UNKNOWN_FIELD.fullmatch(what):
        return _explain_unknown(
            _join(path, match["name"]), match["name"], _list_field_names(types), "unknown field"
        )
    if match := _MISSING_FIELD.fullmatch(what):
        return _join(path, match["name"]), _explain_missing(match["name"], types), None
    if match := _UNKNOWN_VALUE.fullmatch(what):
        word = value if isinstance(value, str) else match["word"]
        if (refusal := _find_refusal(types, word)) is not None:
            return path, *refusal
        return _explain_unknown(path, word, _list_values(types), "unknown value")
    return path, _rephrase(what, value), None


def _find_refusal(types: list[inspect.Type], word: str) -> tuple[str, str] | None:
    """Return why a known word is refused, and the nearest."""
    for kind in types:
        if not isinstance(kind, inspect.EnumType):
            continue
        if kind.cls is OptimizerName and (unmodelled := UNMODELLED.get(word)) is not None:
            return unmodelled.explain(word), unmodelled.nearest.value
        if issubclass(kind.cls, StrEnum):
            return explain_other_word(kind.cls, word)
    return None


def _explain_unknown(
    path: str, name: str, candidates: list[str], what: str
) -> tuple[str, str, str | None]:
    if not candidates:
        return path, f"{what} {_truncate(name)!r}; this takes no parameters", None
    nearest = find_nearest_name(name, candidates)
    hint = f" Did you mean {nearest!r}?" if nearest else ""
    listed = (
        f" Known: {', '.join(candidates)}." if not nearest or len(candidates) <= _MAX_LISTED else ""
    )
    return path, f"{what} {_truncate(name)!r}.{hint}{listed}", nearest


def _explain_missing(name: str, types: list[inspect.Type]) -> str:
    tags = [
        str(kind.tag)
        for kind in types
        if isinstance(kind, inspect.StructType) and kind.tag_field == name
    ]
    return f"required, one of {', '.join(tags)}" if tags else MISSING


def _add_examples(types: list[inspect.Type], paths: Iterable[str]) -> str:
    structs = [kind for kind in types if isinstance(kind, inspect.StructType)]
    names = [path.rpartition(".")[2] for path in paths]
    return explain_missing(structs[0], names) if len(structs) == 1 else MISSING


def _list_also_missing(what: str, path: str, types: list[inspect.Type], value: object) -> list[str]:
    """Return the other required fields that the same object lacks."""
    match = _MISSING_FIELD.fullmatch(what)
    structs = [kind for kind in types if isinstance(kind, inspect.StructType)]
    if match is None or not isinstance(value, dict) or len(structs) != 1:
        return []
    required = [field.encode_name for field in structs[0].fields if _is_required(field, value)]
    named = {*value, match["name"]}
    return [_join(path, name) for name in required if name not in named]


def _is_required(field: inspect.Field, value: Mapping[str, object]) -> bool:
    if field.required or not isinstance(field.type, inspect.Metadata):
        return field.required
    substitute = (field.type.extra or {}).get(SUBSTITUTE)
    return substitute is not None and substitute not in value


def _rephrase(what: str, value: object) -> str:
    text = re.sub(r"`([a-z |]+)`", lambda match: _format_types(match[1]), what)
    text = text.replace("matching regex", "that matches").replace(r"$(?!\\n)", "$")
    received = (
        f"; got {_truncate(repr(value))}"
        if isinstance(value, int | float | str) and ", got" not in text
        else ""
    )
    return text[:1].lower() + text[1:] + received


def _format_types(types: str) -> str:
    return " or ".join(_TYPES.get(name, name) for name in types.split(" | "))


def _truncate(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN else text[:_MAX_SHOWN] + "…"


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _follow(
    path: str, types: list[inspect.Type], value: object
) -> tuple[list[inspect.Type], object]:
    types = _narrow(types, value)
    for step in _STEP.finditer(path):
        value = _get_child(step, value)
        types = _narrow([child for kind in types for child in _iter_children(step, kind)], value)
    return types, value


def _get_child(step: re.Match[str], value: object) -> object:
    if step["key"] and isinstance(value, dict):
        return value.get(step["key"])
    if step["index"] and isinstance(value, list) and int(step["index"]) < len(value):
        return value[int(step["index"])]
    return None


def _iter_children(step: re.Match[str], kind: inspect.Type) -> Iterator[inspect.Type]:
    match kind:
        case inspect.StructType():
            yield from (field.type for field in kind.fields if field.encode_name == step["key"])
            if step["key"] and step["key"] == kind.tag_field:
                yield inspect.LiteralType(values=(kind.tag,))
        case inspect.ListType() | inspect.VarTupleType():
            yield kind.item_type
        case inspect.DictType():
            yield kind.value_type
        case _:
            return


def _narrow(types: list[inspect.Type], value: object) -> list[inspect.Type]:
    """Open unions and annotations, and select the tagged struct.

    Of tagged structs only the one whose tag the value has is kept; all of them where none has it.
    """
    flat = list(_flatten(types))
    tagged = [kind for kind in flat if isinstance(kind, inspect.StructType) and kind.tag_field]
    if not isinstance(value, dict):
        return flat
    chosen = [kind for kind in tagged if value.get(str(kind.tag_field)) == kind.tag]
    return [kind for kind in flat if kind not in tagged or kind in chosen] if chosen else flat


def _flatten(types: Iterable[inspect.Type]) -> Iterator[inspect.Type]:
    for kind in types:
        match kind:
            case inspect.UnionType():
                yield from _flatten(kind.types)
            case inspect.Metadata():
                yield from _flatten([kind.type])
            case _:
                yield kind


def _list_field_names(types: list[inspect.Type]) -> list[str]:
    structs = [kind for kind in types if isinstance(kind, inspect.StructType)]
    names = [field.encode_name for kind in structs for field in kind.fields]
    return sorted({*names, *(kind.tag_field for kind in structs if kind.tag_field)})


def _list_values(types: list[inspect.Type]) -> list[str]:
    values: set[str] = set()
    for kind in types:
        match kind:
            case inspect.EnumType():
                values |= {str(member.value) for member in kind.cls}
            case inspect.LiteralType():
                values |= {str(value) for value in kind.values}
            case _:
                pass
    return sorted(values)
