"""JSON schemas of tools, derived from the contract's structs."""

from typing import Any

import msgspec

_REFERENCE = "#/$defs/{name}"
_LEFT_OUT = frozenset({"title", "examples", "pattern", "maximum", "additionalProperties"})
"""What tells a reader nothing that the description does not; a model pays for every word."""


def build_input_schema(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the schema of a tool's arguments, with its references."""
    _, components = msgspec.json.schema_components((kind,), ref_template=_REFERENCE)
    slim = {name: _slim(schema) for name, schema in components.items()}
    root: dict[str, Any] = slim.pop(kind.__name__)
    return root | ({"$defs": slim} if slim else {})


def _slim(schema: Any) -> Any:  # noqa: ANN401 - any part of a JSON schema
    if isinstance(schema, dict):
        # A property may have the name of a word that is left out.
        return {
            name: ({one: _slim(part) for one, part in value.items()})
            if name == "properties"
            else _slim(value)
            for name, value in schema.items()
            if name not in _LEFT_OUT
        }
    return [_slim(part) for part in schema] if isinstance(schema, list) else schema
