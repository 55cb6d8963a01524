"""The OpenAPI 3.1 document.

Made from the operations that the handlers carry and the structs that they decode and encode.
"""

import re
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from inspect import cleandoc
from typing import Any

import msgspec
from litestar import Litestar
from litestar.routes import HTTPRoute

from service.api.http.operation import Operation, Reply
from service.api.http.problems import MEDIA_TYPE
from service.contract.schemas.operations import Problem
from service.contract.sentences.describe import describe_fields, find_description, iter_structs

DESCRIPTION = (
    "GPU capacity planning: does it fit, how many GPUs, and what real probes measured. Memory is "
    "in bytes. Requests are strict at every level: an unknown field, a string where a number "
    "belongs or a float where an integer belongs is refused with the path and the nearest known "
    "name. Of duplicate keys in one JSON object the last one counts. Every refusal is a problem "
    "document (RFC 9457). HEAD is answered wherever GET is."
)
TAGS = {
    "fit": "Does it fit, and why.",
    "how-many": "How many GPUs.",
    "plans": "The best GPUs and the layout on them.",
    "ceilings": "How large a batch, a sequence, a load, an adapter or a model may be.",
    "launches": "Launch files, commands and scripts' arguments as questions.",
    "hooks": "What schedulers ask about a job before it is queued.",
    "explain": "Why a run failed for memory, and what would have fitted.",
    "pipelines": "Pipelines of diffusers: components, and whether a call of one fits.",
    "models": "Stored models and the catalogue.",
    "gpus": "The GPU catalogue.",
    "clusters": "Inventories of GPUs.",
    "reservations": "GPUs of a cluster that are promised for a time.",
    "measurements": "Probes on real devices, and what was measured without one.",
    "calibrations": "What measurements taught.",
    "workers": "Who measures.",
    "keys": "Who may ask for what, and who changed what.",
    "operations": "Health, metrics, version.",
}
_REFERENCE = "#/components/schemas/{name}"
_ALWAYS = (405, 500)
_TEXT = {"type": "string"}
_PLAIN = {
    "text/plain": _TEXT,
    "text/csv": _TEXT,
    "application/octet-stream": {"type": "string", "format": "binary"},
}
_GUARDED = (401, 403, 429, 503)
_SECURITY_SCHEMES = {
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "description": "A key of this server, `hr_…`, or a token of the issuer that it trusts.",
    },
    "header": {
        "type": "apiKey",
        "in": "header",
        "name": "X-API-Key",
        "description": "The same key in a header of its own.",
    },
}
_SOURCES = {"InlineModel": ("hf_config", "architecture", "num_parameters", "name")}
"""Fields that say what a model is, of which a body has exactly one."""
_ONE_OF_TWO = {"ModelSource": ("hf_config", "architecture")}
"""What a body must have exactly one of, beside what else it may have."""
_NOT_BOTH = {"ModelSource": ("safetensors_index", "safetensors_header")}

_LINE_END = re.compile(r"(?<!\n)\n(?!\n)")

Json = dict[str, Any]


def build_document(app: Litestar, *, version: str) -> Json:
    """Return the document of every operation that ``app`` routes."""
    routed = list(list_operations(app))
    schemas = _Schemas(operation for _, _, operation in routed)
    paths: dict[str, Json] = {}
    for path, method, operation in routed:
        paths.setdefault(path, {})[method.lower()] = _describe_operation(operation, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Headroom",
            "version": version,
            "description": DESCRIPTION,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/", "description": "This server"}],
        "tags": [{"name": tag, "description": text} for tag, text in TAGS.items()],
        "paths": paths,
        "components": {"schemas": schemas.components, "securitySchemes": _SECURITY_SCHEMES},
    }


def list_operations(app: Litestar) -> Iterable[tuple[str, str, Operation]]:
    """Return path, method and operation of every handler that carries one."""
    for route in sorted(
        (route for route in app.routes if isinstance(route, HTTPRoute)),
        key=lambda route: route.path_format,
    ):
        for handler in route.route_handlers:
            if operation := handler.opt.get("operation"):
                for method in sorted(handler.http_methods):
                    yield route.path_format, str(method), operation


class _Schemas:
    """JSON Schemas of all types that operations name."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        types = [kind for operation in operations for kind in _list_types(operation)]
        schemas, self.components = msgspec.json.schema_components(
            [*types, Problem], ref_template=_REFERENCE
        )
        for struct in iter_structs([*types, Problem]):
            _describe_properties(self.components[struct.__name__], describe_fields(struct))
        for component in self.components.values():
            _unwrap_descriptions(component)
        self._by_type = {
            str(kind): schema for kind, schema in zip([*types, Problem], schemas, strict=True)
        }
        # A problem has further members, which depend on its type; every other answer may grow
        # fields as well.
        self.components["Problem"]["additionalProperties"] = True
        for name, fields in _SOURCES.items():
            self.components[name] |= {
                "minProperties": 1,
                "maxProperties": len(self.components[name]["properties"]) - len(fields) + 1,
            }
        for name, (first, second) in _ONE_OF_TWO.items():
            self.components[name] |= {
                "if": {"required": [first]},
                "then": {"not": {"required": [second]}},
                "else": {"required": [second]},
            }
        for name, rivals in _NOT_BOTH.items():
            self.components[name]["not"] = {"required": list(rivals)}

    def get(self, kind: object) -> Json:
        return dict(self._by_type[str(kind)])


def _describe_properties(schema: Json, sentences: Mapping[str, str]) -> None:
    for name, text in sentences.items():
        schema["properties"][name]["description"] = text


def _unwrap_descriptions(schema: Json) -> None:
    """Join the lines of each paragraph.

    Docstrings are wrapped at the width of the code.
    """
    if isinstance(text := schema.get("description"), str):
        schema["description"] = _LINE_END.sub(" ", cleandoc(text))
    for field in schema.get("properties", {}).values():
        _unwrap_descriptions(field)


def _list_types(operation: Operation) -> Iterable[Any]:
    yield from (*operation.path.values(), *operation.headers.values())
    yield from (kind for reply in operation.replies.values() for kind in reply.bodies)
    if operation.body is not None:
        yield operation.body
    if operation.query is not None:
        yield from _get_annotations(operation.query).values()


def _get_annotations(struct: Any) -> Mapping[str, Any]:  # noqa: ANN401 - a struct class
    return {field.encode_name: field.type for field in msgspec.structs.fields(struct)}


def _describe_operation(operation: Operation, schemas: _Schemas) -> Json:
    described: Json = {
        "operationId": operation.id,
        "tags": [operation.tag],
        "summary": operation.summary,
        "parameters": _describe_parameters(operation, schemas),
        "responses": _describe_replies(operation, schemas) | _describe_problems(operation),
    }
    if operation.scope is not None:
        # Without a key this machine's own users are let in where the server is not told otherwise.
        described["security"] = [
            {"bearer": [operation.scope.value]},
            {"header": [operation.scope.value]},
            {},
        ]
    if operation.description:
        described["description"] = operation.description
    if operation.body is not None:
        content = _describe_media(schemas.get(operation.body), operation.example)
        described["requestBody"] = {"required": True, "content": {"application/json": content}}
    return described


def _describe_parameters(operation: Operation, schemas: _Schemas) -> list[Json]:
    parameters = [
        _describe_parameter(name, "path", schemas.get(kind), required=True)
        for name, kind in operation.path.items()
    ]
    if operation.query is not None:
        required = {
            field.encode_name for field in msgspec.structs.fields(operation.query) if field.required
        }
        for name, kind in _get_annotations(operation.query).items():
            parameters.append(
                _describe_parameter(
                    name,
                    "query",
                    schemas.get(kind) | _describe_annotation(kind),
                    required=name in required,
                )
            )
    for name, kind in operation.headers.items():
        parameters.append(
            _describe_parameter(
                name,
                "header",
                schemas.get(kind),
                required=name == "If-Match" and name not in operation.optional_headers,
            )
        )
    return parameters


def _describe_annotation(annotation: Any) -> Json:  # noqa: ANN401 - a type annotation
    text = find_description(annotation)
    return {} if text is None else {"description": text}


def _describe_parameter(name: str, place: str, schema: Json, *, required: bool) -> Json:
    described = {"name": name, "in": place, "required": required, "schema": schema}
    return described | ({"description": text} if (text := schema.pop("description", "")) else {})


def _describe_replies(operation: Operation, schemas: _Schemas) -> Json:
    return {
        str(status): _describe_reply(reply, schemas) for status, reply in operation.replies.items()
    }


def _describe_reply(reply: Reply, schemas: _Schemas) -> Json:
    described: Json = {"description": reply.description}
    if reply.bodies:
        shapes = [schemas.get(kind) for kind in reply.bodies]
        described["content"] = {
            media: _describe_media(dict(_PLAIN.get(media) or _join_schemas(shapes)), reply.example)
            for media in reply.media_types
        }
    if reply.headers:
        described["headers"] = {
            name: {"description": text, "schema": {"type": "string"}}
            for name, text in reply.headers.items()
        }
    return described


def _join_schemas(shapes: list[Json]) -> Json:
    return shapes[0] if len(shapes) == 1 else {"anyOf": shapes}


def _describe_problems(operation: Operation) -> Json:
    statuses = sorted(
        {*operation.problems, *_ALWAYS, *(_GUARDED if operation.scope is not None else ())}
    )
    content = {MEDIA_TYPE: {"schema": {"$ref": _REFERENCE.format(name="Problem")}}}
    return {
        str(status): {"description": HTTPStatus(status).phrase, "content": content}
        for status in statuses
    }


def _describe_media(schema: Json, example: object) -> Json:
    return {"schema": schema} | ({"example": example} if example is not None else {})
