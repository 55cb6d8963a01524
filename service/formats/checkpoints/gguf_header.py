"""Header of a GGUF file: its metadata and tensors.

ggml, ``docs/gguf.md`` and ``src/gguf.cpp``. Versions 2 and 3 are read, which differ by nothing but
the byte order that 3 allows. Every count and length is bounded before anything of its size is made.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import BinaryIO

from service.estimator.model.weights.ggml import BLOCKS, GgmlType, compute_tensor_bytes
from service.estimator.values.errors import InvalidInputError

MAGIC = b"GGUF"
MAX_HEADER_BYTES = 128 * 2**20
"""A header holds the tokenizer: 256,000 tokens and their merges are some 20 MB."""
MAX_KEYS = 4096
MAX_TENSORS = 65_536
MAX_NAME_BYTES = 256
MAX_TEXT_BYTES = 2**20
MAX_DIMENSIONS = 4
"""ggml's ``GGML_MAX_DIMS``."""
MAX_KEPT_ITEMS = 1024
"""Longer arrays are a tokenizer's, and so are arrays of text: both are passed over."""
_MAX_ELEMENTS = 2**62
_MAX_ALIGNMENT = 2**20
_DEFAULT_ALIGNMENT = 32
_VERSIONS = frozenset({2, 3})
_PIECE = 2**20
_TEXT, _ARRAY = 8, 9
_NUMBERS = {
    0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d",
}  # fmt: skip
"""Formats of :mod:`struct` by the number of a value's type (``enum gguf_type``)."""
_TYPES: Mapping[int, GgmlType] = {block.number: name for name, block in BLOCKS.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class GgufTensor:
    """A tensor of a file.

    ``shape`` begins with the length of its rows, as ggml writes it.
    """

    name: str
    type: GgmlType
    shape: tuple[int, ...]

    @property
    def bytes(self) -> int:
        """Bytes of the tensor, without padding."""
        return compute_tensor_bytes(self.type, self.shape)

    @property
    def num_elements(self) -> int:
        """Elements of the tensor."""
        return prod(self.shape)


@dataclass(frozen=True, slots=True, kw_only=True)
class GgufHeader:
    """Header of a file without the arrays of its tokenizer."""

    metadata: Mapping[str, object]
    tensors: tuple[GgufTensor, ...]
    header_bytes: int
    """Bytes before the data, padding included."""
    data_bytes: int
    """Bytes of the data, in which every tensor begins at a multiple of the alignment."""


def parse_gguf_header(stream: BinaryIO) -> GgufHeader:
    """Read the header of a GGUF file from the beginning of ``stream``.

    At most MAX_HEADER_BYTES are read, a mebibyte at a time. Raises InvalidInputError where it
    is no such file.
    """
    reader = _Reader(stream)
    if reader.take(4) != MAGIC:
        raise _refuse("it does not begin with GGUF")
    version = reader.read_number("I")
    if version not in _VERSIONS:
        swapped = int.from_bytes(int(version).to_bytes(4, "little"), "big")
        kind = "big-endian" if swapped in _VERSIONS else f"version {version}"
        raise _refuse(f"it is {kind}; read are little-endian files of version 2 and 3")
    num_tensors = reader.read_count(MAX_TENSORS, "tensors")
    num_keys = reader.read_count(MAX_KEYS, "keys")
    metadata: dict[str, object] = {}
    for _ in range(num_keys):
        key = reader.read_text(MAX_NAME_BYTES)
        if key in metadata:
            raise _refuse(f"the key {key!r} comes twice")
        metadata[key] = _read_value(reader)
    alignment = _get_alignment(metadata)
    placed = [_read_tensor(reader) for _ in range(num_tensors)]
    tensors = tuple(tensor for tensor, _ in placed)
    if len({tensor.name for tensor in tensors}) != num_tensors:
        raise _refuse("two tensors have the same name")
    end = 0
    for tensor, offset in placed:
        if offset != end:
            raise _refuse(f"{tensor.name} begins at {offset}, where {end} is next")
        end += _pad(tensor.bytes, alignment)
    return GgufHeader(
        metadata={key: value for key, value in metadata.items() if value is not None},
        tensors=tensors,
        header_bytes=_pad(reader.num_read, alignment),
        data_bytes=end,
    )


class _Reader:
    """Numbers and texts of a stream, as far as MAX_HEADER_BYTES."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._piece = b""
        self._at = 0
        self._before = 0

    @property
    def num_read(self) -> int:
        """Bytes that were taken."""
        return self._before + self._at

    def take(self, size: int) -> bytes:
        """Return the next bytes."""
        self._fill(size)
        data = self._piece[self._at : self._at + size]
        self._at += size
        return data

    def skip(self, size: int) -> None:
        """Pass over bytes, a piece at a time."""
        while size > 0:
            size -= len(self.take(min(size, _PIECE)))

    def skip_texts(self, count: int) -> None:
        """Pass over texts; a vocabulary has hundreds of thousands."""
        unpack = struct.Struct("<Q").unpack_from
        for _ in range(count):
            if self._at + 8 > len(self._piece):
                self._fill(8)
            (length,) = unpack(self._piece, self._at)
            self._at += 8
            if length > MAX_TEXT_BYTES:
                raise _refuse(f"it has a text of {length} bytes; at most {MAX_TEXT_BYTES} are read")
            if self._at + length > len(self._piece):
                self._fill(length)
            self._at += length

    def read_number(self, code: str) -> int | float | bool:
        """Return a little-endian number of a format of :mod:`struct`."""
        (value,) = struct.unpack(f"<{code}", self.take(struct.calcsize(f"<{code}")))
        number: int | float | bool = value
        return number

    def read_count(self, limit: int, noun: str) -> int:
        """Return a count that is within its limit."""
        count = int(self.read_number("Q"))
        if count > limit:
            raise _refuse(f"it has {count} {noun}; at most {limit} are read")
        return count

    def read_text(self, limit: int) -> str:
        """Return a text whose length is within its limit."""
        data = self.take(self.read_count(limit, "bytes in a text"))
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            raise _refuse(f"a text is no UTF-8: {error.reason}") from None
        if "\0" in text:
            raise _refuse("a text holds U+0000")
        return text

    def _fill(self, size: int) -> None:
        """Have the next ``size`` bytes at hand."""
        if self._before + self._at + size > MAX_HEADER_BYTES:
            raise _refuse(f"its header is longer than {MAX_HEADER_BYTES:,} bytes")
        if self._at + size <= len(self._piece):
            return
        parts = [self._piece[self._at :]]
        self._before += self._at
        missing = size - len(parts[0])
        while missing > 0:
            part = self._stream.read(max(missing, _PIECE))
            if not part:
                raise _refuse("it ends within its header")
            parts.append(part)
            missing -= len(part)
        self._piece, self._at = b"".join(parts), 0


def _read_value(reader: _Reader) -> object:
    """Return a value, or None for one that is passed over."""
    kind = int(reader.read_number("I"))
    if kind == _TEXT:
        return reader.read_text(MAX_TEXT_BYTES)
    if kind == _ARRAY:
        return _read_array(reader)
    return reader.read_number(_get_code(kind))


def _read_array(reader: _Reader) -> list[object] | None:
    kind = int(reader.read_number("I"))
    count = reader.read_count(MAX_HEADER_BYTES, "items in an array")
    if kind == _ARRAY:
        # ggml's own reader refuses them too (gguf.cpp, "invalid array type").
        raise _refuse("it has an array of arrays")
    if kind == _TEXT:
        reader.skip_texts(count)
        return None
    code = _get_code(kind)
    if count > MAX_KEPT_ITEMS:
        reader.skip(count * struct.calcsize(f"<{code}"))
        return None
    return [reader.read_number(code) for _ in range(count)]


def _get_code(kind: int) -> str:
    if kind not in _NUMBERS:
        raise _refuse(f"a value is of the unknown type {kind}")
    return _NUMBERS[kind]


def _read_tensor(reader: _Reader) -> tuple[GgufTensor, int]:
    """Return a tensor, and where its data begins."""
    name = reader.read_text(MAX_NAME_BYTES)
    num_dimensions = int(reader.read_number("I"))
    if not 1 <= num_dimensions <= MAX_DIMENSIONS:
        raise _refuse(f"{name} has {num_dimensions} dimensions; 1 to {MAX_DIMENSIONS} are read")
    shape = tuple(int(reader.read_number("Q")) for _ in range(num_dimensions))
    number, offset = int(reader.read_number("I")), int(reader.read_number("Q"))
    if number not in _TYPES:
        raise _refuse(f"{name} is of the unknown type {number}; known: {', '.join(GgmlType)}")
    return make_tensor(name, _TYPES[number], shape), offset


def make_tensor(name: str, ggml_type: GgmlType, shape: tuple[int, ...]) -> GgufTensor:
    """Return a tensor of a size that a file can have.

    Raises InvalidInputError where its rows are no whole blocks.
    """
    if min(shape) < 1 or prod(shape) > _MAX_ELEMENTS:
        raise _refuse(f"{name} has the shape {list(shape)}")
    tensor = GgufTensor(name=name, type=ggml_type, shape=shape)
    try:
        compute_tensor_bytes(ggml_type, shape)
    except ValueError as error:
        raise _refuse(f"{name} is {ggml_type} and its {error}") from None
    return tensor


def _get_alignment(metadata: Mapping[str, object]) -> int:
    alignment = metadata.get("general.alignment", _DEFAULT_ALIGNMENT)
    if (
        isinstance(alignment, bool)
        or not isinstance(alignment, int)
        or not 1 <= alignment <= _MAX_ALIGNMENT
        or alignment & (alignment - 1)
    ):
        raise _refuse(f"general.alignment is {alignment!r}; it must be a power of two")
    return alignment


def _pad(size: int, alignment: int) -> int:
    return -(-size // alignment) * alignment


def _refuse(reason: str) -> InvalidInputError:
    return InvalidInputError(f"this is no GGUF file that can be read: {reason}", field="gguf")
