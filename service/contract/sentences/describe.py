"""Sentences of every field that is read or sent.

A field says its own where it is declared. Those that are alike everywhere, and those of answers,
are looked up here.
"""

from collections.abc import Iterable, Iterator, Mapping
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec
from msgspec import Meta, Struct, UnsetType

from service.contract.sentences.answers import FIT, SEARCHES
from service.contract.sentences.measured import MEASURED, describe_row_field
from service.contract.sentences.stored import STORED

SENTENCES: Mapping[str, Mapping[str, str]] = {**FIT, **SEARCHES, **MEASURED, **STORED}
"""By the name of a struct and of its field."""
_PAGES: Mapping[str, str] = {
    "items": "What this page holds, in the order of the list.",
    "next_cursor": "What `cursor` takes for the next page; null on the last one.",
}
_ROW = "MeasurementRow"


def iter_structs(annotations: Iterable[Any]) -> Iterator[type[Struct]]:
    """Yield every struct that annotations name, however deep."""
    seen: set[type[Struct]] = set()
    pending = list(annotations)
    while pending:
        annotation = pending.pop()
        if not (isinstance(annotation, type) and issubclass(annotation, Struct)):
            pending += get_args(annotation)
        elif annotation not in seen:
            seen.add(annotation)
            yield annotation
            pending += [field.type for field in msgspec.structs.fields(annotation)]


def describe_fields(struct: type[Struct]) -> dict[str, str]:
    """Return the sentence of every field of a struct that has one.

    The field's own comes before that of its type: a number of GPUs is no number of ranks.
    """
    sentences = {
        field.encode_name: text
        for field in msgspec.structs.fields(struct)
        if (text := _describe_field(struct, field)) is not None
    }
    tag_field, tag = struct.__struct_config__.tag_field, struct.__struct_config__.tag
    if tag_field is not None:
        sentences[tag_field] = f"Always `{tag}`: by it a {struct.__name__} is told from others."
    return sentences


def find_description(annotation: Any) -> str | None:  # noqa: ANN401 - a type annotation
    """Return the outermost description of an annotation."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        texts = [
            part.description for part in parts[1:] if isinstance(part, Meta) and part.description
        ]
        return texts[-1] if texts else find_description(parts[0])
    if origin in {Union, UnionType}:
        members = [part for part in parts if part not in {UnsetType, type(None)}]
        return find_description(members[0]) if len(members) == 1 else None
    return None


def _describe_field(struct: type[Struct], field: msgspec.structs.FieldInfo) -> str | None:
    name = field.encode_name
    if (text := find_description(field.type)) is not None:
        return text
    if struct.__name__ == _ROW:
        return describe_row_field(name)
    for owner in struct.__mro__:
        if name in SENTENCES.get(owner.__name__, {}):
            return SENTENCES[owner.__name__][name]
    return _PAGES.get(name)
