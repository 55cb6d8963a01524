"""The OpenAPI document as the generator of the client understands it."""

import json
from typing import Any

from litestar import Litestar

from service.api.http.openapi import build_document
from service.app import ROUTERS

_JSON = "application/json"
# A stream of events or of a file is no value, and pages for a screen or a scraper are no part of a
# program's interface.
_NOT_GENERATED = frozenset({"watchMeasurement", "readArtifact", "metrics"})
_VERSION = "v1"

Json = dict[str, Any]


def build_client_document() -> Json:
    """Build the OpenAPI document that the client is generated from.

    It has every operation with its answers that are JSON, and no refusal, since all look alike.
    """
    full_document = build_document(
        Litestar(route_handlers=list(ROUTERS), openapi_config=None), version=_VERSION
    )
    # Through JSON and back, as a client gets it: enumerations are words then.
    plain: Json = _replace_tuples(json.loads(json.dumps(full_document)))
    paths = {path: _filter_operations(item) for path, item in plain["paths"].items()}
    return plain | {"paths": {path: item for path, item in paths.items() if item}}


def _filter_operations(item: Json) -> Json:
    return {
        method: _keep_successes(operation)
        for method, operation in item.items()
        if operation["operationId"] not in _NOT_GENERATED
    }


def _keep_successes(operation: Json) -> Json:
    replies = {
        status: _keep_json(reply)
        for status, reply in operation["responses"].items()
        if status.startswith("2")
    }
    return {name: value for name, value in operation.items() if name != "security"} | {
        "responses": replies
    }


def _keep_json(reply: Json) -> Json:
    content = {media: body for media, body in reply.get("content", {}).items() if media == _JSON}
    return {"description": reply["description"]} | ({"content": content} if content else {})


def _replace_tuples(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Replace fixed arrays by arrays of one type.

    The generator does not support `items: false`.
    """
    match value:
        case dict() if "prefixItems" in value:
            kinds = [
                kind
                for index, kind in enumerate(value["prefixItems"])
                if kind not in value["prefixItems"][:index]
            ]
            remaining = {
                name: item for name, item in value.items() if name not in {"prefixItems", "items"}
            }
            return _replace_tuples(
                remaining | {"items": kinds[0] if len(kinds) == 1 else {"anyOf": kinds}}
            )
        case dict():
            return {name: _replace_tuples(item) for name, item in value.items()}
        case list():
            return [_replace_tuples(item) for item in value]
        case _:
            return value
