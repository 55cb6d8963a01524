"""Header of a safetensors file: names, formats and shapes of its tensors.

github.com/huggingface/safetensors, README.md ("Format") and ``safetensors/src/tensor.rs``
(``validate``): eight bytes of length, JSON of at most 100 MB, and tensors without holes.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from service.estimator.values.errors import InvalidInputError

MAX_HEADER_BYTES = 100_000_000
LENGTH_BYTES = 8
_MAX_COUNT = 2**64 - 1
"""Rust's ``usize``: ``validate`` refuses what overflows it."""
METADATA = "__metadata__"
ELEMENT_BITS: Mapping[str, int] = {
    "F64": 64, "I64": 64, "U64": 64, "C64": 64, "F32": 32, "I32": 32, "U32": 32,
    "F16": 16, "BF16": 16, "I16": 16, "U16": 16, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8,
    "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8, "I8": 8, "U8": 8, "BOOL": 8,
    "F6_E2M3": 6, "F6_E3M2": 6, "F4": 4,
}  # fmt: skip
"""Bits of an element by the name of its format."""

ReadRange = Callable[[int, int], bytes]
"""Returns so many bytes from a place on, fewer at the end."""


def read_safetensors_header(read: ReadRange, *, first: int = LENGTH_BYTES) -> dict[str, object]:
    """Return the JSON header of a file; its tensors are not read.

    ``first`` bytes are read at once, which may hold the header already. Raises InvalidInputError
    where the bytes are no such file.
    """
    begin = read(0, max(first, LENGTH_BYTES))
    if len(begin) < LENGTH_BYTES:
        raise _refuse("it is shorter than its length")
    size = int.from_bytes(begin[:LENGTH_BYTES], "little")
    if not 2 <= size <= MAX_HEADER_BYTES:  # noqa: PLR2004 - {} is the shortest header
        raise _refuse(f"its header would have {size:,} bytes; at most {MAX_HEADER_BYTES:,}")
    body = begin[LENGTH_BYTES : LENGTH_BYTES + size]
    if len(body) < size:
        body += read(LENGTH_BYTES + len(body), size - len(body))
    if len(body) != size:
        raise _refuse("it ends within its header")
    return parse_safetensors_header(body)


def parse_safetensors_header(body: bytes) -> dict[str, object]:
    """Return a header whose tensors follow each other without holes.

    Raises InvalidInputError otherwise.
    """
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        raise _refuse("its header is not JSON") from None
    if not isinstance(document, dict):
        raise _refuse("its header is no object")
    spans = sorted(
        _read_span(name, tensor) for name, tensor in document.items() if name != METADATA
    )
    end = 0
    for start, stop, name in spans:
        if start != end:
            raise _refuse(f"{name} begins at {start}, where {end} is next")
        end = stop
    return document


def count_elements(shape: Sequence[int]) -> int | None:
    """Return the elements of a shape; None where they are too many."""
    size = 1
    for count in shape:
        size *= count
        if size > _MAX_COUNT:
            return None
    return size


def _read_span(name: str, tensor: object) -> tuple[int, int, str]:
    """Return where a tensor begins and ends."""
    fields: dict[str, Any] = tensor if isinstance(tensor, dict) else {}
    dtype: Any = fields.get("dtype")
    shape: Any = fields.get("shape")
    offsets: Any = fields.get("data_offsets")
    if (
        not isinstance(dtype, str)
        or dtype not in ELEMENT_BITS
        or not _are_counts(shape)
        or not _are_counts(offsets, 2)
    ):
        raise _refuse(f"{name} is no tensor of dtype, shape and data_offsets")
    num_elements = count_elements(shape)
    if num_elements is None:
        raise _refuse(f"{name} has more elements than {_MAX_COUNT}")
    size = num_elements * ELEMENT_BITS[dtype]
    if size % 8 or offsets[1] - offsets[0] != size // 8:
        raise _refuse(
            f"{name} has {offsets[1] - offsets[0]} bytes where its shape has {size / 8:g}"
        )
    return offsets[0], offsets[1], name


def _are_counts(value: object, length: int | None = None) -> bool:
    return (
        isinstance(value, list)
        and (length is None or len(value) == length)
        and all(
            isinstance(item, int) and not isinstance(item, bool) and 0 <= item <= _MAX_COUNT
            for item in value
        )
    )


def _refuse(reason: str) -> InvalidInputError:
    message = f"this is no safetensors file that can be read: {reason}"
    return InvalidInputError(message, field="safetensors")
