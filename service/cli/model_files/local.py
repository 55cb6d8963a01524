"""Models on this machine: directories, GGUF and safetensors files."""

import json
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

from service.base.errors import InvalidRequestError
from service.cli.model_files.brought import Brought
from service.cli.model_files.json_files import read_config, read_object
from service.formats.checkpoints.gguf_document import join_headers
from service.formats.checkpoints.gguf_header import parse_gguf_header
from service.formats.checkpoints.repository import (
    ADAPTER,
    CONFIG,
    INDEX,
    PIPELINE,
    choose_files,
    explain_pipeline,
    list_parts,
)
from service.formats.checkpoints.safetensors_header import METADATA, read_safetensors_header

_SHARDS = "*.safetensors"
_MAX_HEADER_BYTES = 512 * 2**10
"""A longer header is told by its sums, so that a question stays within what a server reads."""


def read_path(path: Path) -> Brought:
    """Return the model in a directory or a file.

    Raises InvalidRequestError or InvalidInputError where there is none.
    """
    if path.is_dir():
        return _read_directory(path)
    if not path.exists():
        message = f"there is no file or directory {path}"
        raise InvalidRequestError(message)
    if path.suffix == ".gguf":
        return read_gguf(path)
    if path.suffix == ".safetensors":
        return _read_safetensors(path)
    message = f"{path} is neither a directory nor a .gguf or .safetensors file; a config.json is "
    raise InvalidRequestError(message + f"given with --config {path}")


def read_gguf(path: Path, *, origin: str | None = None) -> Brought:
    """Return the model of a GGUF file, whole or split."""
    names = {file.name for file in path.parent.iterdir()} if path.suffix == ".gguf" else {}
    parts = list_parts(path.name, names) if names else (path.name,)
    headers = []
    for part in parts:
        with _open(path.parent / part) as stream:
            headers.append(parse_gguf_header(stream))
    return {"gguf": join_headers(headers).describe(), "origin": origin or _spell(path)}


def sum_header(header: dict[str, Any]) -> int:
    """Return the bytes of all tensors of a header."""
    spans = [tensor["data_offsets"] for name, tensor in header.items() if name != METADATA]
    return sum(stop - start for start, stop in spans)


def _read_directory(path: Path) -> Brought:
    names = {file.name for file in path.iterdir() if file.is_file()}
    if CONFIG not in names and ADAPTER in names:
        # It is read where one is named, and no sooner.
        adapters = import_module("service.cli.model_files.adapters")
        return dict(adapters.read_adapter(read_object(path / ADAPTER)))
    if CONFIG not in names and PIPELINE in names:
        raise InvalidRequestError(explain_pipeline(read_object(path / PIPELINE), _sum_parts(path)))
    files = choose_files(names)
    if files.gguf:
        return read_gguf(path / files.gguf[0])
    shards = sorted(path.glob(_SHARDS))
    if INDEX in names:
        index = read_object(path / INDEX)
        weights = index.get("weight_map")
        listed = sorted(set(map(str, weights.values()))) if isinstance(weights, dict) else []
        shards = [path / name for name in listed if name in names]
        if len(shards) < len(listed):
            # Not all is here yet: the index tells the sums.
            brought = {"hf_config": read_config(path / CONFIG), "safetensors_index": index}
            return {**brought, "origin": _spell(path)}
    return {
        "hf_config": read_config(path / CONFIG),
        **_describe_tensors(_read_header(shard) for shard in shards),
        "origin": _spell(path),
    }


def _read_safetensors(path: Path) -> Brought:
    header = _read_header(path)
    config = path.with_name(CONFIG)
    if not config.is_file():
        num_tensors = sum(name != METADATA for name in header)
        message = (
            f"{path} holds {sum_header(header):,} bytes in {num_tensors} tensors, which say no "
            f"structure: put its {CONFIG} beside it"
        )
        raise InvalidRequestError(message)
    described = _describe_tensors([header])
    return {"hf_config": read_config(config), **described, "origin": _spell(path)}


def _describe_tensors(headers: Iterable[dict[str, Any]]) -> Brought:
    """Return the tensors of all files.

    Where they are many their sums stand for them.
    """
    merged: dict[str, Any] = {}
    total = 0
    for header in headers:
        total += sum_header(header)
        for name, tensor in header.items():
            if name != METADATA:
                merged[name] = {"dtype": tensor["dtype"], "shape": tensor["shape"]}
    if not merged:
        return {}
    if len(json.dumps(merged)) <= _MAX_HEADER_BYTES:
        return {"safetensors_header": merged}
    return {"safetensors_index": {"metadata": {"total_size": total}, "weight_map": {}}}


def _sum_parts(path: Path) -> dict[str, int]:
    """Return the bytes of a pipeline's components that are here."""
    return {
        folder.name: sum(sum_header(_read_header(file)) for file in folder.glob(_SHARDS))
        for folder in path.iterdir()
        if folder.is_dir() and any(folder.glob(_SHARDS))
    }


def _read_header(path: Path) -> dict[str, Any]:
    with _open(path) as stream:

        def read(start: int, size: int) -> bytes:
            stream.seek(start)
            return bytes(stream.read(size))

        return read_safetensors_header(read)


def _open(path: Path) -> Any:  # noqa: ANN401 - a file of bytes
    try:
        return path.open("rb")
    except OSError as error:
        message = f"cannot read {path}: {error.strerror}"
        raise InvalidRequestError(message) from None


def _spell(path: Path) -> str:
    """Return a path as an answer can repeat it."""
    text = "".join(letter if " " <= letter <= "~" else "?" for letter in str(path))
    return text[-255:].strip() or "a file"
