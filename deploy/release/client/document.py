"""The OpenAPI document as the generator of the client understands it."""

import json
from typing import Any

from litestar import Litestar

from service.api.http.openapi import document
from service.app import ROUTERS

_JSON = "application/json"
# A stream of events or of a file is no value, and pages for a screen or a scraper are no part of a program's interface.
_NOT_GENERATED = frozenset({"watchMeasurement", "readArtifact", "metrics"})
_VERSION = "v1"

Json = dict[str, Any]


def client_document() -> Json:
    """Return what is generated from: every operation, its answers that are JSON, and no refusal, which all look alike."""
    whole = document(Litestar(route_handlers=list(ROUTERS), openapi_config=None), version=_VERSION)
    # Through JSON and back, as a client gets it: enumerations are words then.
    plain: Json = _without_tuples(json.loads(json.dumps(whole)))
    paths = {path: _operations(item) for path, item in plain["paths"].items()}
    return plain | {"paths": {path: item for path, item in paths.items() if item}}


def _operations(item: Json) -> Json:
    return {method: _successes(found) for method, found in item.items() if found["operationId"] not in _NOT_GENERATED}


def _successes(operation: Json) -> Json:
    replies = {status: _as_json(reply) for status, reply in operation["responses"].items() if status.startswith("2")}
    return {name: value for name, value in operation.items() if name != "security"} | {"responses": replies}


def _as_json(reply: Json) -> Json:
    content = {media: body for media, body in reply.get("content", {}).items() if media == _JSON}
    return {"description": reply["description"]} | ({"content": content} if content else {})


def _without_tuples(value: Any) -> Any:  # noqa: ANN401  # any JSON value
    """Return the same with arrays of one type for fixed ones: the generator has no word for `items: false`."""
    match value:
        case dict() if "prefixItems" in value:
            kinds = [kind for index, kind in enumerate(value["prefixItems"]) if kind not in value["prefixItems"][:index]]
            rest = {name: item for name, item in value.items() if name not in {"prefixItems", "items"}}
            return _without_tuples(rest | {"items": kinds[0] if len(kinds) == 1 else {"anyOf": kinds}})
        case dict():
            return {name: _without_tuples(item) for name, item in value.items()}
        case list():
            return [_without_tuples(item) for item in value]
        case _:
            return value
