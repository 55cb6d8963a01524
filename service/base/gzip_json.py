"""JSON that is shipped compressed."""

import json
import zlib
from typing import Any

_GZIP = 31
"""zlib's ``wbits`` of a gzip file; the module gzip would be loaded with every command."""


def decode_gzip_json(data: bytes) -> dict[str, Any]:
    """Return the object of a compressed file."""
    document: dict[str, Any] = json.loads(zlib.decompress(data, wbits=_GZIP))
    return document
