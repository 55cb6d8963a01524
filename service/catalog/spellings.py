"""Spellings of models: addresses, sizes, words.

A spelling is read where it means one model and nothing else; one that may mean several is a
question, with the models that it may mean.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache

from service.base.errors import UnknownModelError
from service.catalog.listed_models import ListedModel, find_listed, load_listed_config
from service.catalog.models import (
    ModelEntry,
    find_model,
    list_models,
    load_architecture,
)
from service.catalog.pipelines.shipped import is_pipeline
from service.catalog.suggestions import find_packed, list_relatives, list_slips, split_name
from service.estimator.values.errors import EstimatorError
from service.estimator.values.units import format_count

_ADDRESS = re.compile(
    r"(?:hf://|(?:https?://)?(?:www\.)?(?:huggingface\.co|hf\.co|hf-mirror\.com)/)(?:models/)?"
    r"([\w.-]+/[\w.-]+)(?:[/?#@:].*)?",
    re.IGNORECASE,
)
"""Addresses of a model on the Hugging Face hub; a branch, a file and a query are left out."""
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([mbt])(?:\s*(?:parameters|params|model))?", re.IGNORECASE)
_HUB_ID = re.compile(r"[\w-][\w.-]*/[\w.-]+")
_UNITS = {"m": 10**6, "b": 10**9, "t": 10**12}
_STAGES = frozenset({"base", "pt", "instruct", "chat", "it"})
"""Words for how a model was trained: most have one shape before and after."""
_FORMATS = frozenset({"awq", "bf", "fp", "gptq", "nvfp"})
"""Words for weights in another format than the model's own (``fp8`` is cut into two), which nobody
means who leaves them out.
"""
_SAME_SIZE = 0.1
"""How far published totals are from the sizes in models' names: Llama 3 8B has 8.03e9 (0.4%), Llama
2 7B 6.74e9 (4%), Qwen2.5 7B 7.62e9 (9%).
"""
_LISTED = 8
CONFIG_ADDRESS = "https://huggingface.co/{hub_id}/raw/main/config.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Spelling:
    """Meaning of a spelling: an entry, a shape or a size.

    ``note`` says what was read and what else has that size, for the assumptions of an answer.
    ``checkpoint`` is the id on the hub that was asked for, where it is no alias of the entry.
    """

    note: str
    entry: ModelEntry | None = None
    num_parameters: int | None = None
    config: Mapping[str, object] | None = None
    checkpoint: str | None = None


def parse_hub_address(text: str) -> str | None:
    """Return the hub id in an address, else ``None``."""
    match = _ADDRESS.fullmatch(text.strip())
    return None if match is None else match[1].removesuffix(".git")


def parse_size(text: str) -> int | None:
    """Return the parameters that ``13B`` says, else ``None``; no model has none."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        return None
    return round(float(match[1]) * _UNITS[match[2].casefold()]) or None


def read_spelling(text: str, *, field: str = "model") -> Spelling:
    """Return what a text means that is no name of a model.

    Raises UnknownModelError for what means no model or several, with what would be right.
    """
    num_parameters = parse_size(text)
    if num_parameters is not None:
        return Spelling(
            num_parameters=num_parameters, note=_describe_size(text.strip(), num_parameters)
        )
    hub_id = parse_hub_address(text)
    entry = find_model(hub_id) if hub_id is not None else _match_words(text, field)
    if entry is None:
        listed = find_listed(hub_id or text.strip())
        if listed is None:
            raise _refuse(_explain_unknown(hub_id or text), field)
        return _read_listed(hub_id or text.strip(), listed)
    return Spelling(entry=entry, note=f"model = {entry.name}, as {text.strip()!r} is read")


def _read_listed(hub_id: str, listed: ListedModel) -> Spelling:
    """Return what a listed id means."""
    config = load_listed_config(listed)
    if config is not None or listed.entry_name is None:
        note = f"model = {hub_id}: {listed.note}"
        return Spelling(note=note, config=config, checkpoint=hub_id)
    note = f"model = {listed.entry_name}, {listed.note}"
    return Spelling(note=note, entry=find_model(listed.entry_name), checkpoint=hub_id)


def _match_words(text: str, field: str) -> ModelEntry | None:
    """Return the one model that words mean, ``None`` where none has them.

    The very words of a name come first, then the same without those for how it was trained, then
    some of its words, of which one is a size. Several models are a question, and none is guessed.
    """
    words = _split_words(text)
    if _HUB_ID.fullmatch(text) or not any(word.isalpha() for word in words):
        return None
    shape = words - _STAGES
    matches = (
        _select(lambda names: names == words)
        or _select(lambda names: names - _STAGES == shape)
        or _select(lambda names: bool(shape) and shape <= names and not (names - shape) & _FORMATS)
    )
    is_named = any(shape == names - _STAGES for names in map(_split_words, _list_names(matches)))
    if len(matches) == 1 and (is_named or any(_SIZE.fullmatch(word) for word in words)):
        return matches[0]
    if matches:
        raise _refuse(_ask_which(text.strip(), matches), field, matches)
    return None


def _select(is_meant: Callable[[frozenset[str]], bool]) -> tuple[ModelEntry, ...]:
    return tuple(
        entry
        for entry in list_models()
        if any(is_meant(_split_words(name)) for name in _list_names([entry]))
    )


def _list_names(entries: Iterable[ModelEntry]) -> list[str]:
    """Return the names of entries, of hub ids the last part."""
    return [
        name
        for entry in entries
        for name in (entry.name, *(alias.rpartition("/")[2] for alias in entry.aliases))
    ]


def _split_words(text: str) -> frozenset[str]:
    return frozenset(split_name(text))


def list_models_of_size(num_parameters: int) -> tuple[ModelEntry, ...]:
    """Return the models of about this size, the nearest first."""
    sizes = _list_sizes()
    near = sorted(
        (abs(total / num_parameters - 1), name)
        for name, total in sizes.items()
        if abs(total / num_parameters - 1) <= _SAME_SIZE
    )
    entries = {entry.name: entry for entry in list_models()}
    return tuple(entries[name] for _, name in near)


@cache
def _list_sizes() -> dict[str, int]:
    """Return the parameters of every model of the catalogue that is modelled.

    Reads each config once: only a size and a question ask for it.
    """
    totals = {entry.name: _count_parameters(entry) for entry in list_models()}
    return {name: total for name, total in totals.items() if total is not None}


def _count_parameters(entry: ModelEntry) -> int | None:
    try:
        return load_architecture(entry).parameter_counts().total
    except EstimatorError:
        return None


def _describe_size(text: str, num_parameters: int) -> str:
    note = (
        f"model = a decoder of {format_count(num_parameters)} parameters in the shape that is "
        f"usual for that size, as {text!r} names no model"
    )
    near = list_models_of_size(num_parameters)
    return f"{note}; models of about that size: {_join(near)}" if near else note


def _ask_which(text: str, matches: Iterable[ModelEntry]) -> str:
    entries = tuple(matches)
    if len(entries) == 1:
        return f"{text!r} is no name of a model; of the name with its words say {_join(entries)}."
    return f"{text!r} may be several models: say which of {_join(entries)}."


def _join(entries: tuple[ModelEntry, ...]) -> str:
    texts = [_format_entry(entry) for entry in entries[:_LISTED]]
    more = f" and {len(entries) - _LISTED} more" if len(entries) > _LISTED else ""
    return ", ".join(texts) + more


def _format_entry(entry: ModelEntry) -> str:
    total = _count_parameters(entry)
    return entry.name if total is None else f"{entry.name} ({format_count(total)})"


_DEFAULT = "-default"
_DEFAULTS_NOTE = (
    f" A name with {_DEFAULT} has the shape that transformers gives its type, in 16 bits; where "
    "published weights are packed, say how (--quantization)."
)


def _explain_unknown(name: str) -> str:
    if is_pipeline(name):
        return (
            f"{name!r} is a pipeline of diffusers: try `headroom generate {name}`, over HTTP "
            "POST /v1/pipelines/fit, which says whether a call of it fits."
        )
    unknown = f"there is no model {name!r}, neither stored nor in the catalogue."
    return " ".join(filter(None, (unknown, _point_to_relatives(name), _ask_config(name))))


def _point_to_relatives(name: str) -> str:
    """Return which name to ask by, empty where none is near."""
    packed = find_packed(name)
    if packed is not None and packed.quantization is not None:
        return (
            f"By its name it is {packed.name} with packed weights: ask about {packed.name} with "
            f"quantization {packed.quantization} (--quantization {packed.quantization})."
        )
    if packed is not None:
        return (
            f"By its name it is {packed.name} with packed weights, from which no --quantization "
            f"follows: ask about {packed.name} with the one that its files have."
        )
    if slips := list_slips(name):
        return f"Did you mean {' or '.join(slips)}?"
    relatives = list_relatives(name)
    if not relatives:
        return ""
    is_family = split_name(relatives[0])[0] in _split_words(name)
    kind = "Other models of its family" if is_family else "The nearest names"
    note = _DEFAULTS_NOTE if any(text.endswith(_DEFAULT) for text in relatives) else ""
    return f"{kind}: {', '.join(relatives)}.{note}"


_RECORD = (
    "A type that `headroom families` does not list is recorded first: `headroom models record "
    "config.json`, which takes minutes on a machine with torch."
)


def _ask_config(name: str) -> str:
    """Return what to paste for an unknown model, and where."""
    if not _HUB_ID.fullmatch(name):
        return (
            "`headroom models` and GET /v1/models list every name; a model that is not among them "
            'is asked about by its config.json: --config FILE, or "model": {"hf_config": {…}}.'
            f" {_RECORD}"
        )
    return (
        f"Its config.json is all that is needed: hub:{name} in place of the name reads it from the "
        'hub (over HTTP "model": {"hub": …}, where the operator allows it); or save '
        f"{CONFIG_ADDRESS.format(hub_id=name)} and "
        'give it with --config FILE in place of the name, over HTTP as "model": {"hf_config": '
        "{…}}; "
        "`headroom models add NAME --config FILE` (POST /v1/models) keeps it under a name. "
        f"{_RECORD}"
    )


def _refuse(message: str, field: str, candidates: Iterable[ModelEntry] = ()) -> UnknownModelError:
    names = [entry.name for entry in candidates]
    extra = {"candidates": names} if names else {}
    return UnknownModelError(message, errors=[{"field": field, "message": message}], **extra)
