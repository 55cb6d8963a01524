"""Bytes of a GGUF file's tensors by their place in llama.cpp."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

from service.estimator.values.errors import InvalidConfigError


@dataclass(frozen=True, slots=True)
class LayerBytes:
    """Bytes of a layer.

    They are of its experts and of the rest, and of its largest tensor.
    """

    experts: int
    rest: int
    largest: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GgufBytes:
    """Bytes of a file's tensors.

    They are token table, head, layers, and what stands outside. The token table stays with the
    host.
    """

    table: int
    head: int
    outside: int
    by_layer: tuple[LayerBytes, ...]
    types: tuple[tuple[str, int], ...] = ()
    """Bytes by type of tensor; empty where no file was read."""

    @property
    def layers(self) -> int:
        """Bytes of all layers, and of what stands outside of them."""
        return self.outside + sum(layer.experts + layer.rest for layer in self.by_layer)

    def with_layers(self, num_layers: int) -> Self:
        """Return the bytes of a file cut to its first layers."""
        return replace(self, by_layer=self.by_layer[:num_layers])

    def describe(self) -> dict[str, object]:
        """Return the bytes as JSON values."""
        return {
            "table": self.table,
            "head": self.head,
            "outside": self.outside,
            "by_layer": [[layer.experts, layer.rest, layer.largest] for layer in self.by_layer],
            "types": dict(self.types),
        }


def read_gguf_bytes(described: object, num_layers: int) -> GgufBytes | None:
    """Parse the output of ``GgufBytes.describe``.

    None where there is none. Raises InvalidConfigError for anything else.
    """
    if described is None:
        return None
    message = f"gguf must hold the bytes of {num_layers} layers, as GET shows them"
    if not isinstance(described, Mapping):
        raise InvalidConfigError(message, field="gguf")
    try:
        layers, types = described["by_layer"], described["types"]
        result = GgufBytes(
            table=_read_count(described["table"]),
            head=_read_count(described["head"]),
            outside=_read_count(described["outside"]),
            by_layer=tuple(_read_layer(layer) for layer in layers),
            types=tuple(sorted((str(name), _read_count(size)) for name, size in types.items())),
        )
    except (AttributeError, KeyError, TypeError, ValueError):
        raise InvalidConfigError(message, field="gguf") from None
    if len(result.by_layer) != num_layers:
        raise InvalidConfigError(message, field="gguf")
    return result


def _read_layer(layer: Sequence[object]) -> LayerBytes:
    experts, dense, largest = layer
    return LayerBytes(_read_count(experts), _read_count(dense), _read_count(largest))


def _read_count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(value)
    return value
