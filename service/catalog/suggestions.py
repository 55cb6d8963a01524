"""Names of the catalogue near one that it does not have.

A name is near where it is a slip of the finger away, or of the same family: none is better than one
of another family, which nobody means.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from math import inf, log

from service.catalog.models import list_all_models
from service.estimator.values.memo import keep_latest

_TOKEN = re.compile(r"\d+(?:\.\d+)*[bmx](?![a-z])|[a-z]+|\d+(?:\.\d+)*")
_FILLERS = frozenset({"the", "model", "hf", "v", "meta"})
"""Words that tell no two models of the catalogue apart."""
_SIZE = re.compile(r"(\d+(?:\.\d+)?)([mb])")
_UNITS = {"m": 10**6, "b": 10**9}
_NUMBER = re.compile(r"\d+(?:\.\d+)*")
_SLIP = 0.88
"""difflib's likeness of names with the same numbers of which one is misspelt: lama3-8b and
llama-3-8b have 0.89, phi-3.5-vision-instruct and phi-3.5-mini-instruct 0.86. Names with other
numbers are other models, however like they are spelt.
"""
_TYPO = 0.8
"""difflib's likeness of tokens of which one is misspelt: lama, llama 0.89, kimi, mini 0.5."""
_MIN_FAMILY = 3
"""Letters of a word that says a family."""
_NO_FAMILY = frozenset({"all", "distil", "japanese", "multilingual"})
"""Words that names of the catalogue begin with and that say no family."""
_MAX_NAMES = 3
_PACKED = re.compile(
    r"[-_.](?:quantized[-_.])?(?:awq|gptq|nvfp4|mxfp4|fp8|w4a16|int4|nf4|bnb|gguf|mlx|\dbit)"
    r"(?:[-_.].*)?"
)
"""How repositories with packed weights are called after the model's own name."""
_FORMATS: Mapping[str, Mapping[int, str]] = {
    "awq": {4: "awq_int4"},
    "gptq": {4: "gptq_int4"},
    "nvfp4": {4: "nvfp4"},
    "mxfp4": {4: "mxfp4"},
    "fp8": {8: "fp8"},
    "nf4": {4: "nf4"},
    "bnb": {4: "nf4", 8: "int8"},
    "w4a16": {4: "gptq_int4"},
    "int4": {4: "gptq_int4"},
}
"""Word of such a name → bits of a weight → format; the first bits are those that go unsaid.

What only says bits comes after what says the packing. The files of one GGUF repository have many
formats, and MLX's is not modelled.
"""
_BITS = re.compile(r"int(\d)|(\d)[-_]?bits?|w(\d)a")


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedModel:
    """A model of the catalogue in weights that a name says.

    ``quantization`` is ``None`` for a format that is not modelled, or not said.
    """

    name: str
    quantization: str | None


@keep_latest(4096)
def split_name(text: str) -> tuple[str, ...]:
    """Return the tokens, releases and sizes of a name."""
    tokens: list[str] = _TOKEN.findall(text.casefold().replace("_", "-"))
    return tuple(token for token in tokens if token not in _FILLERS)


def list_slips(name: str) -> tuple[str, ...]:
    """Return the names of the same numbers that are spelt nearly alike.

    A word of other names is no slip of another word: medium is not mini.
    """
    last = _get_last_part(name)
    numbers, terms = _NUMBER.findall(last), _list_words() & set(split_name(last))
    same = [
        key
        for key in _index_names()
        if _NUMBER.findall(key) == numbers and terms <= set(split_name(key))
    ]
    slips = get_close_matches(last, same, n=_MAX_NAMES, cutoff=_SLIP)
    return tuple(dict.fromkeys(_index_names()[slip] for slip in slips))


def list_relatives(name: str) -> tuple[str, ...]:
    """Return the names of a name's family, the nearest first."""
    tokens, families = split_name(_get_last_part(name)), _index_families()
    for word in tokens:
        near = get_close_matches(word, families, n=1, cutoff=_TYPO)
        if near and word.isalpha():
            ranked = sorted(
                (_measure_distance(tokens, split_name(n)), n) for n in families[near[0]]
            )
            return tuple(relative for _, relative in ranked[:_MAX_NAMES])
    return ()


def find_packed(name: str) -> PackedModel | None:
    """Return the model whose weights a repository has packed."""
    last = _get_last_part(name)
    for match in _PACKED.finditer(last):
        base = _index_names().get(last[: match.start()])
        if base is not None:
            return PackedModel(name=base, quantization=_read_format(match[0]))
    return None


def _read_format(packing: str) -> str | None:
    formats = next((_FORMATS[word] for word in _FORMATS if word in packing), {})
    bits = _BITS.search(packing)
    if bits is None:
        return next(iter(formats.values()), None)
    return formats.get(int(bits[bits.lastindex or 0]))


def _get_last_part(name: str) -> str:
    return name.casefold().rpartition("/")[2]


@cache
def _index_names() -> Mapping[str, str]:
    """Return the catalogue's names by the last part of each."""
    return {
        _get_last_part(name): entry.name
        for entry in list_all_models()
        for name in (*entry.aliases, entry.name)
    }


@cache
def _list_words() -> frozenset[str]:
    """Return the words of the catalogue's names."""
    terms = (term for name in _index_names() for term in split_name(name))
    return frozenset(term for term in terms if term.isalpha() and len(term) > _MIN_FAMILY)


@cache
def _index_families() -> Mapping[str, tuple[str, ...]]:
    """Return the catalogue's names by their family's word."""
    families: dict[str, tuple[str, ...]] = {}
    for entry in list_all_models():
        word = split_name(entry.name)[0]
        if len(word) >= _MIN_FAMILY and word.isalpha() and word not in _NO_FAMILY:
            families[word] = (*families.get(word, ()), entry.name)
    return families


def _measure_distance(first: tuple[str, ...], second: tuple[str, ...]) -> tuple[float, float, int]:
    """Return how far apart two names are in releases and sizes.

    What one of them does not say keeps them as far apart as can be.
    """
    release, other_release = _read_release(first), _read_release(second)
    size, other_size = _read_size(first), _read_size(second)
    return (
        inf if release is None or other_release is None else abs(release - other_release),
        inf if size is None or other_size is None else abs(log(size / other_size)),
        len(set(first) ^ set(second)),
    )


def _read_release(tokens: tuple[str, ...]) -> float | None:
    """Return the first number that is no size."""
    numbers = (word.split(".") for word in tokens if word.replace(".", "").isdecimal())
    return next((float(".".join(parts[:2])) for parts in numbers), None)


def _read_size(tokens: tuple[str, ...]) -> float | None:
    """Return the parameters that the first size says; none has 0."""
    matches = (_SIZE.fullmatch(word) for word in tokens)
    sizes = (float(match[1]) * _UNITS[match[2]] for match in matches if match)
    return next((size for size in sizes if size), None)
