"""Every field of the document has a sentence: its meaning, its unit, and what null stands for."""

from collections.abc import Iterator
from typing import Annotated, Any

import pytest
from litestar import Litestar
from msgspec import UNSET, Meta, Struct, UnsetType, structs

from service.api.http.openapi import build_document
from service.app import ROUTERS
from service.contract.schemas.fields import Degree
from service.contract.sentences.describe import (
    SENTENCES,
    describe_fields,
    find_description,
    iter_structs,
)

Json = dict[str, Any]
_UNITS = {"_bytes": ("byte", "Byte"), "_s": ("second", "Second", "hour", "Hour"), "_ms": ("illi",)}


class Limits(Struct, tag_field="kind", tag="limits"):
    """Bounds, for a test."""

    max_gpus: Annotated[Degree | UnsetType, Meta(description="Most GPUs.")] = UNSET
    ranks: Degree | UnsetType = UNSET
    anything: int = 0


@pytest.fixture(scope="module", name="document")
def build() -> Json:
    """Return the document of all routes."""
    return build_document(Litestar(route_handlers=list(ROUTERS), openapi_config=None), version="v1")


def fields(document: Json) -> Iterator[tuple[str, str, Json, Json]]:
    """Yield the struct, the name and the schema of every field, and the schema of its struct."""
    for name, schema in document["components"]["schemas"].items():
        for field, part in schema.get("properties", {}).items():
            yield name, field, part, schema


def is_nullable(schema: Json) -> bool:
    """Return whether a value may be null."""
    return schema.get("type") == "null" or any(map(is_nullable, schema.get("anyOf", ())))


def test_every_field_has_a_sentence(document: Json) -> None:
    """400 of 896 had none: whoever read the document had to guess."""
    without = [
        f"{struct}.{field}"
        for struct, field, part, _ in fields(document)
        if not part.get("description", "").endswith(".")
    ]

    assert without == []


def test_every_parameter_has_a_sentence(document: Json) -> None:
    """Those of a path and of a query too."""
    parameters = [
        (operation["operationId"], parameter)
        for item in document["paths"].values()
        for operation in item.values()
        for parameter in operation["parameters"]
    ]

    assert [
        (operation, parameter["name"])
        for operation, parameter in parameters
        if not parameter.get("description", "").endswith(".")
    ] == []


def test_a_field_that_may_be_null_says_when(document: Json) -> None:
    """At the field, or for all of them in the sentence of their object."""
    silent = [
        f"{struct}.{field}"
        for struct, field, part, schema in fields(document)
        if is_nullable(part)
        and "null" not in f"{part['description']} {schema.get('description', '')}".lower()
    ]

    assert silent == []


def test_a_number_of_bytes_or_seconds_says_so(document: Json) -> None:
    """The unit that the name ends in is in the sentence as well, or the name of such a number."""
    silent = [
        f"{struct}.{field}: {part['description']}"
        for struct, field, part, _ in fields(document)
        for unit, words in _UNITS.items()
        if field.endswith(unit)
        and not field.endswith("_per_s")
        and not any(word in part["description"] for word in words)
    ]

    assert silent == []


def test_a_fields_own_sentence_comes_before_that_of_its_type(document: Json) -> None:
    """The most GPUs of a search were described as ranks of an axis."""
    sentences = describe_fields(Limits)

    assert sentences["max_gpus"] == "Most GPUs."
    assert sentences["ranks"] == find_description(Degree)
    assert "limits" in sentences["kind"]
    assert "anything" not in sentences
    schemas = document["components"]["schemas"]
    assert "GPUs to try" in schemas["Constraints"]["properties"]["max_gpus"]["description"]
    (asked,) = (
        parameter
        for parameter in document["paths"]["/v1/how-many"]["get"]["parameters"]
        if parameter["name"] == "max_gpus"
    )
    assert "GPUs to try" in asked["description"]


def test_no_sentence_is_left_over() -> None:
    """Each belongs to a field that is there and that says none of its own."""
    app = Litestar(route_handlers=list(ROUTERS), openapi_config=None)
    open_fields = {
        struct.__name__: {
            field.encode_name
            for field in structs.fields(struct)
            if find_description(field.type) is None
        }
        for route in app.routes
        for handler in getattr(route, "route_handlers", ())
        if (operation := handler.opt.get("operation")) is not None
        for struct in iter_structs(
            [
                *(kind for reply in operation.replies.values() for kind in reply.bodies),
                *([operation.body] if operation.body is not None else []),
                *([operation.query] if operation.query is not None else []),
            ]
        )
    }

    assert [
        f"{struct}.{field}"
        for struct, sentences in SENTENCES.items()
        for field in sentences
        if field not in open_fields.get(struct, set())
    ] == []
