"""Models that a command names by a place.

A place is a file, a directory, a name that Ollama has, or a hub.
"""

import re
from importlib import import_module
from pathlib import Path

from service.cli.model_files.brought import Brought

MODEL_HELP = (
    "name or Hugging Face id of a model, a directory (./model), a .gguf or .safetensors file, a "
    "name that Ollama has here (llama3.2:3b), or hub:org/name to read it from the hub now; or "
    "give --config"
)
_PATH = ("./", "../", "/", "~/")
_SUFFIXES = (".gguf", ".safetensors")
_OLLAMA = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*){0,3}:[A-Za-z0-9._-]+"
)
_HUB = "hub:"
_OF_A_DRAFT = ("hf_config", "gguf", "origin")


def is_place(text: str | None) -> bool:
    """Return whether a text names a place rather than a model."""
    if text is None:
        return False
    return (
        text in {".", ".."}
        or text.startswith((*_PATH, _HUB))
        or text.endswith(_SUFFIXES)
        or _is_kept_by_ollama(text)
    )


def _is_kept_by_ollama(text: str) -> bool:
    """Return whether Ollama has a name here."""
    if _OLLAMA.fullmatch(text) is None:
        return False
    return import_module("service.cli.model_files.ollama").find_manifest(text) is not None


def read_place(text: str) -> Brought:
    """Return the fields of the model at a place.

    Headers are read, never a tensor; only ``hub:`` reaches out. Raises ServiceError or
    EstimatorError for what cannot be read.
    """
    if text.startswith(_HUB):
        return dict(import_module("service.cli.model_files.hub").read_hub(text[len(_HUB) :]))
    if text.startswith(_PATH) or text in {".", ".."} or text.endswith(_SUFFIXES):
        path = Path(text).expanduser()
        return dict(import_module("service.cli.model_files.local").read_path(path))
    return dict(import_module("service.cli.model_files.ollama").read_ollama(text))


def read_draft(value: object) -> object:
    """Return a draft model as a request takes it: a place's fields."""
    if not isinstance(value, str) or not is_place(value):
        return value
    brought = read_place(value)
    return {name: brought[name] for name in _OF_A_DRAFT if name in brought}
