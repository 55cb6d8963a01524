"""Words for required fields that are missing, with the schema's examples."""

from collections.abc import Iterable

from msgspec import Struct, inspect

MISSING = "required and missing"


def explain_missing(kind: type[Struct] | inspect.StructType, names: Iterable[str]) -> str:
    """Return that fields are missing, and values that would do."""
    struct = kind if isinstance(kind, inspect.StructType) else inspect.type_info(kind)
    examples = _collect_examples(struct)
    named = [examples.get(name) for name in names]
    if None in named:
        return MISSING
    return f"{MISSING}, such as {' and '.join(str(example) for example in named)}"


def _collect_examples(struct: inspect.Type) -> dict[str, object]:
    assert isinstance(struct, inspect.StructType)  # noqa: S101 - requests are structs
    return {
        field.encode_name: examples[0]
        for field in struct.fields
        if isinstance(field.type, inspect.Metadata)
        and (examples := (field.type.extra_json_schema or {}).get("examples"))
    }
