"""GGUF headers as JSON, those of split files as one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Self

from service.estimator.model.weights.ggml import GgmlType
from service.estimator.values.errors import InvalidInputError
from service.formats.checkpoints.gguf_header import (
    MAX_DIMENSIONS,
    MAX_KEPT_ITEMS,
    MAX_KEYS,
    MAX_TENSORS,
    GgufHeader,
    GgufTensor,
    make_tensor,
)

_TOKENIZER, _SPLIT = "tokenizer.", "split."
_MAX_TEXT = 4096
"""Longer texts of a header are templates and licences, which no question is about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GgufModel:
    """Metadata and tensors of a model in one file or several."""

    metadata: Mapping[str, object]
    tensors: tuple[GgufTensor, ...]

    @property
    def total_bytes(self) -> int:
        """Bytes of all tensors, without padding."""
        return sum(tensor.bytes for tensor in self.tensors)

    def describe(self) -> dict[str, object]:
        """Return the document that stands for the model in a request."""
        return {
            "metadata": dict(self.metadata),
            "tensors": [
                {"name": tensor.name, "type": tensor.type.value, "shape": list(tensor.shape)}
                for tensor in self.tensors
            ],
        }

    @classmethod
    def parse(cls, document: Mapping[str, object]) -> Self:
        """Parse a document of a request.

        Raises InvalidInputError with the field that is wrong.
        """
        unknown = sorted(set(document) - {"metadata", "tensors"})
        metadata, tensors = document.get("metadata"), document.get("tensors")
        if unknown or not isinstance(metadata, Mapping) or not isinstance(tensors, list | tuple):
            message = "gguf must be an object of metadata, an object, and tensors, a list"
            raise InvalidInputError(message, field=unknown[0] if unknown else "")
        if len(metadata) > MAX_KEYS or not 0 < len(tensors) <= MAX_TENSORS:
            message = (
                f"gguf has {len(metadata)} keys and {len(tensors)} tensors; at most {MAX_KEYS} and "
                f"{MAX_TENSORS} are read, and one tensor at least"
            )
            raise InvalidInputError(message, field="tensors")
        parsed = tuple(_parse_tensor(index, tensor) for index, tensor in enumerate(tensors))
        if len({tensor.name for tensor in parsed}) != len(parsed):
            message = "two tensors have the same name"
            raise InvalidInputError(message, field="tensors")
        return cls(metadata=_keep_metadata(metadata), tensors=parsed)


def join_headers(headers: Sequence[GgufHeader]) -> GgufModel:
    """Return the model of a file, or of all its parts.

    Raises InvalidInputError where a part is missing or of another model.
    """
    first = headers[0].metadata
    count, total = first.get("split.count", 1), first.get("split.tensors.count")
    numbers = [header.metadata.get("split.no", 0) for header in headers]
    tensors = tuple(chain.from_iterable(header.tensors for header in headers))
    if len(headers) != count or numbers != list(range(len(headers))):
        message = f"a GGUF file of {count} parts: all are needed, in their order, not {numbers}"
        raise InvalidInputError(message, field="gguf")
    if count != 1 and total != len(tensors):
        message = f"the parts have {len(tensors)} tensors, and the first says {total}"
        raise InvalidInputError(message, field="gguf")
    if len({tensor.name for tensor in tensors}) != len(tensors):
        message = "two parts have the same tensor"
        raise InvalidInputError(message, field="gguf")
    return GgufModel(metadata=_keep_metadata(first), tensors=tensors)


def _keep_metadata(metadata: Mapping[str, object]) -> dict[str, object]:
    """Return the metadata that questions are about.

    Tokenizer, templates and the place of a part are none of it.
    """
    return {
        str(key): value
        for key, value in metadata.items()
        if not key.startswith((_TOKENIZER, _SPLIT)) and _is_short(value)
    }


def _is_short(value: object) -> bool:
    if isinstance(value, str):
        return len(value) <= _MAX_TEXT
    if isinstance(value, list | tuple):
        return len(value) <= MAX_KEPT_ITEMS and all(isinstance(item, int | float) for item in value)
    return isinstance(value, int | float)


def _parse_tensor(index: int, tensor: object) -> GgufTensor:
    field = f"tensors[{index}]"
    fields = dict(tensor) if isinstance(tensor, Mapping) else {}
    name, word, shape = fields.get("name"), fields.get("type"), fields.get("shape")
    if not isinstance(name, str) or not name or set(fields) != {"name", "type", "shape"}:
        message = f"{field} is no object of name, type and shape"
        raise InvalidInputError(message, field=field)
    if word not in set(GgmlType):
        message = f"type is {word!r}; known: {', '.join(GgmlType)}"
        raise InvalidInputError(message, field=f"{field}.type")
    if (
        not isinstance(shape, list | tuple)
        or not 1 <= len(shape) <= MAX_DIMENSIONS
        or not all(isinstance(size, int) and not isinstance(size, bool) for size in shape)
    ):
        message = f"shape is {shape!r}; it must be 1 to {MAX_DIMENSIONS} sizes, row length first"
        raise InvalidInputError(message, field=f"{field}.shape")
    return make_tensor(name, GgmlType(word), tuple(shape))
