"""Names of GGUF files: the model and the format that they tell."""

import re
from pathlib import PurePosixPath

from service.formats.launches.sources.handed_in import HandedIn

_FORMAT = re.compile(
    r"[-._](?:(?:ud|i1)[-._])?((?:i?q\d\w*|tq\d\w*|b?f16|f32|mxfp4(?:_moe)?|int8|none))$",
    re.IGNORECASE,
)
_LEAST_BITS = 4
"""Formats of fewer bits have no term."""
_REPOSITORY = re.compile(r"[-_](?:i1-)?gguf$", re.IGNORECASE)
_PART = re.compile(r"-\d{5}-of-\d{5}$")


def cut_format(path: str) -> tuple[str, str]:
    """Return the model and the format that a file is named for.

    The format is empty where it names none.
    """
    stem = _PART.sub("", PurePosixPath(path).name.removesuffix(".gguf"))
    match = _FORMAT.search(stem)
    return (stem, "") if match is None else (stem[: match.start()], match.group(1))


def find_base_model(repository: str, handed_in: HandedIn) -> str:
    """Return the known model that a repository's files are made of.

    It is the repository itself where none is known by its name without ``-GGUF``.
    """
    base = _REPOSITORY.sub("", repository)
    names = (repository, base, base.rpartition("/")[2])
    return next((name for name in names if handed_in.launch.find_checkpoint(name)), repository)


def get_larger_format(word: str) -> str:
    """Return a format with a term that has no fewer bits."""
    digit = re.search(r"\d", word)
    bits = 8 if digit is None else int(digit.group())
    if bits < _LEAST_BITS or word in {"q4_k_s", "iq4_xs", "iq4_nl"}:
        return "q4_k_m"
    if bits == _LEAST_BITS or word in {"q5_k_s", "q5_0"}:
        return "q5_k_m"
    return "q6_k" if bits == _LEAST_BITS + 1 else "q8_0"
