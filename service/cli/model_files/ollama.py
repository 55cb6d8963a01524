"""Models that Ollama keeps on this machine.

They are read from its store, without its server: ollama/ollama, ``types/model/name.go`` (names),
``server/manifest.go``: a manifest under ``manifests/HOST/NAMESPACE/MODEL/TAG`` names blobs by
digest, of which one is a GGUF file.
"""

import os
import re
from pathlib import Path

from service.base.errors import InvalidRequestError
from service.cli.model_files.brought import Brought
from service.cli.model_files.json_files import read_object
from service.cli.model_files.local import read_gguf

_DEFAULTS = ("registry.ollama.ai", "library")
_MODEL = "application/vnd.ollama.image.model"
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


def read_ollama(text: str) -> Brought:
    """Return the model of a name such as ``llama3.2:3b``.

    Raises InvalidRequestError where Ollama has none of it here.
    """
    manifest = find_manifest(text)
    if manifest is None:
        message = f"Ollama has no {text} here: `ollama pull {text}` gets it"
        raise InvalidRequestError(message)
    layers = read_object(manifest).get("layers")
    digests = [
        layer.get("digest")
        for layer in (layers if isinstance(layers, list) else ())
        if isinstance(layer, dict) and layer.get("mediaType") == _MODEL
    ]
    if len(digests) != 1 or not _DIGEST.fullmatch(str(digests[0])):
        message = f"{manifest} names {len(digests)} models; one is read"
        raise InvalidRequestError(message)
    blob = _get_store() / "blobs" / str(digests[0]).replace(":", "-")
    return read_gguf(blob, origin=f"Ollama's {text}")


def find_manifest(text: str) -> Path | None:
    """Return the manifest of a name, if Ollama has it here."""
    name, _, tag = text.rpartition(":")
    parts = name.split("/")
    place = (*_DEFAULTS[: max(0, 3 - len(parts))], *parts)[-3:]
    manifest = _get_store().joinpath("manifests", *place, tag)
    return manifest if manifest.is_file() else None


def _get_store() -> Path:
    """Return where Ollama keeps models; OLLAMA_MODELS names another place."""
    return Path(os.environ.get("OLLAMA_MODELS") or Path.home() / ".ollama" / "models")
