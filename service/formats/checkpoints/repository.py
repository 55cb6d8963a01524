"""Files of a model's repository that say what it is."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from service.estimator.values.errors import InvalidInputError

CONFIG = "config.json"
ADAPTER = "adapter_config.json"
PIPELINE = "model_index.json"
QUANTIZATION = "hf_quant_config.json"
INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
_PART = re.compile(r"(.+)-([0-9]{5})-of-([0-9]{5})\.gguf")
_MAX_LISTED = 12
_MAX_TEXT = 120
"""Characters of a name or a value that a refusal repeats: files of a repository may have 32 MB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RepositoryFiles:
    """Files that are read of a repository.

    ``gguf`` are the parts of one GGUF file, else ``config`` is read; ``weights`` is the index or
    the only safetensors file, if there is one.
    """

    gguf: tuple[str, ...] = ()
    config: str | None = None
    quantization: str | None = None
    weights: str | None = None


def choose_files(names: Collection[str], file: str | None = None) -> RepositoryFiles:
    """Return the files that say what a model is.

    ``file`` names one of several GGUF files. Raises InvalidInputError where nothing does.
    """
    if file is not None:
        return RepositoryFiles(gguf=list_parts(file, names))
    if CONFIG in names:
        return RepositoryFiles(
            config=CONFIG,
            quantization=QUANTIZATION if QUANTIZATION in names else None,
            weights=next((name for name in (INDEX, SINGLE) if name in names), None),
        )
    models = {
        list_parts(name, names)
        for name in names
        if name.endswith(".gguf") and "mmproj" not in name.lower()
    }
    if len(models) == 1:
        return RepositoryFiles(gguf=models.pop())
    if models:
        listed = ", ".join(map(shorten, sorted(parts[0] for parts in models)[:_MAX_LISTED]))
        message = f"there are {len(models)} GGUF files: name one as file, such as {listed}"
        raise InvalidInputError(message, field="file")
    message = f"there is neither a {CONFIG} nor a GGUF file in it"
    raise InvalidInputError(message)


def list_parts(file: str, names: Collection[str]) -> tuple[str, ...]:
    """Return the parts of a GGUF file, in order.

    Raises InvalidInputError where one is missing.
    """
    match = _PART.fullmatch(file)
    count = int(match[3]) if match is not None else 1
    if count > _MAX_PARTS:
        message = f"{shorten(file)} has {count} parts; at most {_MAX_PARTS} are read"
        raise InvalidInputError(message, field="file")
    parts = (
        (file,)
        if match is None
        else tuple(f"{match[1]}-{number:05}-of-{count:05}.gguf" for number in range(1, count + 1))
    )
    missing = [part for part in parts if part not in names]
    if missing or not file.endswith(".gguf"):
        message = f"there is no GGUF file {shorten((missing or [file])[0])} in it"
        raise InvalidInputError(message, field="file")
    return parts


_MAX_PARTS = 64


def explain_adapter(adapter: Mapping[str, object]) -> str:
    """Return an adapter in the words of a question."""
    base, kind = adapter.get("base_model_name_or_path"), adapter.get("peft_type", "LORA")
    details = [f"rank {shorten(adapter['r'])}"] if isinstance(adapter.get("r"), int) else []
    targets = adapter.get("target_modules")
    if isinstance(targets, list):
        details.append(f"targets {_list_some(sorted(map(str, targets)))}")
    elif targets is not None:
        details.append(f"targets {shorten(targets)}")
    described = f" ({'; '.join(details)})" if details else ""
    return (
        f"it is an adapter{described} of {shorten(base or 'a model that it does not name')}, "
        f"{shorten(kind)}: ask about that model, with workload.lora to train the adapter"
    )


def explain_pipeline(index: Mapping[str, object], sizes: Mapping[str, int]) -> str:
    """Return what a pipeline of diffusers is made of.

    ``sizes`` are the bytes of components whose headers were read.
    """
    names = [
        f"{shorten(name)} ({shorten(item[1])}{f', {sizes[name]:,} bytes' if name in sizes else ''})"
        for name, item in index.items()
        if isinstance(item, list) and len(item) == 2 and item[1] is not None  # noqa: PLR2004 - library and class
    ]
    return (
        f"it is a pipeline of diffusers, {shorten(index.get('_class_name', 'of no name'))} "
        f"({_list_some(names) or 'it names no components'}): `headroom generate` asks about its "
        "calls, over HTTP POST /v1/pipelines/fit"
    )


def shorten(value: object, limit: int = _MAX_TEXT) -> str:
    """Return a foreign value as a refusal repeats it."""
    text = str(value)
    return text if len(text) <= limit else f"{text[:limit]}…"


def _list_some(names: Sequence[str]) -> str:
    """Return the first of some names, and the number of the others."""
    listed = ", ".join(map(shorten, names[:_MAX_LISTED]))
    more = len(names) - _MAX_LISTED
    return f"{listed} and {more:,} more" if more > 0 else listed
