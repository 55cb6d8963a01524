"""GGUF files of the gguf package, and headers made byte by byte."""

import json
import struct
from collections.abc import Sequence
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

from service.formats.checkpoints.gguf_document import GgufModel, join_headers
from service.formats.checkpoints.gguf_header import GgufHeader, parse_gguf_header

FOLDER = Path("tests/data/checkpoints/gguf")
_TEXT, _UINT32, _ARRAY = 8, 4, 9


@cache
def read_expected() -> dict[str, dict[str, Any]]:
    """Return what the gguf package said of the files when it wrote them."""
    expected: dict[str, dict[str, Any]] = json.loads((FOLDER / "expected.json").read_text())
    return expected


def list_models() -> list[str]:
    """Return the model types that have a file."""
    return sorted(set(read_expected()) - {"types", "split"})


def read_file(name: str) -> GgufHeader:
    """Return the header of a file."""
    with (FOLDER / f"{name}.gguf").open("rb") as stream:
        return parse_gguf_header(stream)


def read_model(name: str) -> GgufModel:
    """Return the model of a file."""
    return join_headers([read_file(name)])


def text(value: str) -> bytes:
    """Return a text as a header has it."""
    return struct.pack("<Q", len(value.encode())) + value.encode()


def key(name: str, value: object) -> bytes:
    """Return a key with a text, a number, or bytes that say their own type."""
    if isinstance(value, bytes):
        return text(name) + value
    if isinstance(value, str):
        return text(name) + struct.pack("<I", _TEXT) + text(value)
    return text(name) + struct.pack("<II", _UINT32, value)


def array(kind: int, count: int, items: bytes) -> bytes:
    """Return an array as the value of a key."""
    return struct.pack("<IIQ", _ARRAY, kind, count) + items


def tensor(name: str, shape: Sequence[int], kind: int = 0, offset: int = 0) -> bytes:
    """Return a tensor as a header has it."""
    sizes = struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
    return text(name) + sizes + struct.pack("<IQ", kind, offset)


def header(
    keys: Sequence[bytes] = (), tensors: Sequence[bytes] = (), *, version: int = 3
) -> BytesIO:
    """Return a file of no data."""
    counts = struct.pack("<IQQ", version, len(tensors), len(keys))
    return BytesIO(b"GGUF" + counts + b"".join(keys) + b"".join(tensors))
