"""Kinds of layers of a recording, from JSON values."""

from service.estimator.model.recorded.json_reader import MAX_SIZE, Reader
from service.estimator.model.recorded.recorded_model import (
    CachedHeads,
    CacheParts,
    RecordedLayer,
    SequenceState,
)

Plan = tuple[tuple[str, str], ...]


def read_layer(reader: Reader) -> RecordedLayer:
    """Return one kind of layer."""
    return RecordedLayer(
        weights=tuple(part.read_weight() for part in reader.get("weights").items()),
        linears=tuple(part.read_linear() for part in reader.get("linears").items()),
        cache_elements=reader.get("cache_elements").read_count(),
        cache_window=reader.get("cache_window").read_optional_index(MAX_SIZE),
        plan=read_plan(reader, "plan"),
        cache=_read_parts(reader.get("cache")) if "cache" in dict(reader.entries()) else None,
    )


def read_plan(reader: Reader, name: str) -> Plan:
    """Return styles by module; none where the document has no such field."""
    if name not in dict(reader.entries()):
        return ()
    return tuple((module, style.read_text()) for module, style in reader.get(name).entries())


def _read_parts(reader: Reader) -> CacheParts:
    return CacheParts(
        caches=tuple(_read_cache(part) for part in reader.get("caches").items()),
        window=reader.get("window").read_optional_index(MAX_SIZE),
        states=tuple(_read_state(part) for part in reader.get("states").items()),
        other=reader.get("other").read_text(),
    )


def _read_cache(reader: Reader) -> CachedHeads:
    num_heads, key_size, value_size, index_size = (part.read_count() for part in reader.items(4))
    return CachedHeads(
        num_heads=num_heads, key_size=key_size, value_size=value_size, index_size=index_size
    )


def _read_state(reader: Reader) -> SequenceState:
    convolution, recurrent = reader.items(2)
    return SequenceState(
        convolution=tuple(part.read_count() for part in convolution.items()),
        recurrent=tuple(part.read_count() for part in recurrent.items()),
    )
