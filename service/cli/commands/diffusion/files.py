"""Files of pipelines: folders of configs, and recordings."""

import gzip
import json
import zipfile
import zlib
from pathlib import Path
from typing import Any

from service.base.errors import InvalidRequestError

_MAX_BYTES = 64 * 2**20
_INDEX = "model_index.json"
_GZIP = b"\x1f\x8b"


def read_folder(path: Path) -> dict[str, Any]:
    """Return ``model_index.json`` and the configs of a folder or a zip file.

    Raises InvalidRequestError where there is none, or one is no JSON object.
    """
    index = _read_member(path, _INDEX)
    if index is None:
        message = f"{path} has no {_INDEX}, by which diffusers knows a pipeline's components"
        raise InvalidRequestError(message)
    configs = {}
    for name, entry in index.items():
        if isinstance(entry, list) and (config := _read_member(path, f"{name}/config.json")):
            configs[name] = config
    return {"model_index": index, "configs": configs}


def _read_member(path: Path, name: str) -> dict[str, Any] | None:
    """Return a JSON file of a folder or a zip, if any."""
    if path.is_dir():
        file = path / name
        return _parse(file.read_bytes(), f"{file}") if file.is_file() else None
    try:
        with zipfile.ZipFile(path) as packed:
            member = next((part for part in packed.infolist() if _is_named(part, name)), None)
            if member is None:
                return None
            if member.file_size > _MAX_BYTES:
                message = f"{name} of {path} is larger than {_MAX_BYTES} bytes"
                raise InvalidRequestError(message)
            return _parse(packed.read(member), f"{name} of {path}")
    except (OSError, zipfile.BadZipFile) as error:
        message = f"cannot read {path}: {error}"
        raise InvalidRequestError(message) from None


def _is_named(part: zipfile.ZipInfo, name: str) -> bool:
    """Return whether a member has this name, one folder down or not."""
    return part.filename == name or (
        part.filename.endswith(f"/{name}") and part.filename.count("/") == name.count("/") + 1
    )


def read_recording(path: Path) -> dict[str, Any]:
    """Return a recorded pipeline's document."""
    try:
        data = path.read_bytes()
        if data.startswith(_GZIP):
            with gzip.open(path) as packed:
                data = packed.read(_MAX_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        message = f"cannot read {path}: {getattr(error, 'strerror', None) or error}"
        raise InvalidRequestError(message) from None
    return _parse(data, str(path))


def _parse(data: bytes, name: str) -> dict[str, Any]:
    if len(data) > _MAX_BYTES:
        message = f"{name} is larger than {_MAX_BYTES} bytes"
        raise InvalidRequestError(message)
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        message = f"{name} is no JSON: {error}"
        raise InvalidRequestError(message) from None
    if not isinstance(document, dict):
        message = f"{name} is no JSON object"
        raise InvalidRequestError(message)
    return document
