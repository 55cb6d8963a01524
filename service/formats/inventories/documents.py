"""Parts of foreign JSON documents, read without trusting their types."""

import json
import re
from collections.abc import Iterator, Mapping

from service.estimator.values.units import MIB
from service.formats.inventories.observed import InventoryFormatError
from service.formats.launches.sources.containers import split_documents
from service.formats.launches.sources.documents import read_mapping
from service.formats.launches.values.errors import LaunchFormatError

Json = Mapping[str, object]
MAX_COUNT = 2**53
"""Above it JSON clients read no integer exactly."""
EXPECTED = (
    "expected `kubectl get nodes,pods -A -o json`, `scontrol show nodes --json`, `sinfo --json`, "
    "`nvidia-smi -q -x`, `ray list nodes --format json --detail`, `dstack fleet get NAME --json`, "
    "SkyPilot's nodes or a page of the DCGM exporter"
)
"""Listings that are read, for refusals."""
_YAML = re.compile(r"(?:[ \t\r\n]++|#[^\n]*+\n)*+(?:apiVersion:|kind:|items:|---)")
"""How Kubernetes' YAML begins, after blanks and comments."""
_BLANKS = re.compile(r"[ \t\r\n]*+")
_MAX_DIGITS = 40


def parse_documents(text: str) -> list[object]:
    """Return the documents that follow each other in a text.

    Raises InventoryFormatError for what is neither JSON nor Kubernetes' YAML.
    """
    if _YAML.match(text):
        return _parse_yaml(text)
    documents: list[object] = []
    position = 0
    try:
        while position < len(text):
            value, position = _DECODER.raw_decode(text, position)
            documents += value if isinstance(value, list) else [value]
            blanks = _BLANKS.match(text, position)
            position = len(text) if blanks is None else blanks.end()
    except RecursionError:
        message = "is nested too deeply"
        raise InventoryFormatError(message) from None
    except ValueError as error:
        message = f"is no JSON ({error}); {EXPECTED}"
        raise InventoryFormatError(message) from None
    return documents


def _parse_yaml(text: str) -> list[object]:
    """Return the documents of a bounded YAML stream."""
    try:
        return [read_mapping("the YAML", part) for part in split_documents(text)]
    except LaunchFormatError as error:
        message = f"{error.message}; send JSON, as `kubectl -o json` prints it"
        raise InventoryFormatError(message) from None


def get_object(part: Json, name: str) -> Json:
    """Return a member that is an object, an empty one otherwise."""
    value = part.get(name)
    return value if isinstance(value, dict) else {}


def get_objects(part: Json, name: str) -> tuple[Json, ...]:
    """Return the objects of a member that is a list."""
    value = part.get(name)
    items = value if isinstance(value, list) else ()
    return tuple(item for item in items if isinstance(item, dict))


def get_text(part: Json, name: str) -> str:
    """Return a member as text, empty where it is none."""
    value = part.get(name)
    return value if isinstance(value, str) else ""


def get_texts(part: Json, name: str) -> tuple[str, ...]:
    """Return the texts of a list, or of text with commas."""
    value = part.get(name)
    if isinstance(value, str):
        return tuple(item for item in value.split(",") if item)
    return (
        tuple(item for item in value if isinstance(item, str))
        if isinstance(value, list | tuple)
        else ()
    )


def get_count(part: Json, name: str) -> int | None:
    """Return a member that is a number from 0 on.

    Slurm since 23.02 writes ``{"set": true, "infinite": false, "number": 8}``, before it the plain
    number; Kubernetes labels write it as text.
    """
    value = part.get(name)
    if isinstance(value, dict):
        if not value.get("set", True) or value.get("infinite", False):
            return None
        value = value.get("number")
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < _MAX_DIGITS:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_COUNT:
        return None
    return value


def get_mebibytes(part: Json, name: str) -> int | None:
    """Return a member that counts MiB, in bytes; None for 0 too."""
    count = get_count(part, name)
    return count * MIB if count and count * MIB <= MAX_COUNT else None


def iter_sections(document: object) -> Iterator[Json]:
    """Yield the document, or the objects of a list of them."""
    if isinstance(document, dict):
        yield document
    elif isinstance(document, list):
        yield from (item for item in document if isinstance(item, dict))


def _read_digits(digits: str) -> int:
    if len(digits) > _MAX_DIGITS:
        message = f"has a number of {len(digits)} digits"
        raise InventoryFormatError(message)
    return int(digits)


def _refuse_constant(name: str) -> object:
    message = f"has {name}, which is no number"
    raise InventoryFormatError(message)


_DECODER = json.JSONDecoder(parse_int=_read_digits, parse_constant=_refuse_constant)
