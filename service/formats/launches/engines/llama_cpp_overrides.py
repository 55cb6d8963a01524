"""Places of tensors that llama.cpp's ``--override-tensor`` names, whose patterns are never run.

An entry is a pattern of tensors' names and a buffer (``common/arg.cpp``,
``parse_tensor_buffer_overrides``). Those of experts are ``blk.N.ffn_up_exps.weight`` and its like.
"""

import re
from itertools import product

ALL_LAYERS = 999
"""Any number beyond a model's layers means all, and this one is beyond any model's."""
_MAX_CHARACTERS = 4096
_MAX_DIGITS = 3
"""Digits of a layer's number; models have fewer than a thousand."""
_PARTS = {"up", "down", "gate"}
_WHOLE = frozenset({"", ".*", ".+"})
_ANY_LAYER = frozenset({*_WHOLE, "*", "d+", "[0-9]+", "(d+)", "([0-9]+)", "(?:d+)", "d*", "[0-9]*"})
_ENDS = frozenset({"", ".", ".*", ".weight", ".weight$", "$"})
_CHOICE = re.compile(r"\d|\[[\d-]+\]")
_RANGE = re.compile(r"(\d)-(\d)|(\d)")


def count_host_experts(text: str) -> int | None:
    """Return the layers whose experts an override keeps on the host.

    None where it keeps anything else, or a part of them.
    """
    if len(text) > _MAX_CHARACTERS:
        return None
    layers: set[int] = set()
    for entry in text.split(","):
        pattern, _, buffer = entry.rpartition("=")
        named = _list_layers(pattern.replace("\\", "")) if buffer.upper() == "CPU" else None
        if named is None:
            return None
        layers |= named
    if ALL_LAYERS in layers:
        return ALL_LAYERS
    return len(layers)


def _list_layers(pattern: str) -> set[int] | None:
    """Return the layers of a pattern of all experts' tensors."""
    before, experts, after = pattern.removeprefix("^").partition("exps")
    if not experts or after not in _ENDS:
        return None
    layer, feed, part = before.rpartition("ffn")
    if not feed:
        layer, part = "", before
    if not _names_all_parts(part.strip("_")):
        return None
    word = layer.removesuffix("_").rstrip(".").removeprefix(".")
    number = word.removeprefix("blk").lstrip(".") if word.startswith("blk") else word
    if layer.removeprefix("blk").lstrip(".") in _WHOLE or number in _ANY_LAYER:
        return {ALL_LAYERS}
    return _expand(number.removeprefix("(?:").removeprefix("(").removesuffix(")"))


def _names_all_parts(part: str) -> bool:
    if part in _WHOLE or part.strip("_") in _WHOLE:
        return True
    names = part.removeprefix("(?:").removeprefix("(").removesuffix(")").split("|")
    return {word.strip("_") for word in names} >= _PARTS


def _expand(alternatives: str) -> set[int] | None:
    """Return the numbers of alternatives of digits and their ranges."""
    numbers: set[int] = set()
    for alternative in alternatives.split("|"):
        choices = _CHOICE.findall(alternative)
        if not choices or "".join(choices) != alternative:
            return None
        digits = [_list_digits(choice) for choice in choices]
        if len(digits) > _MAX_DIGITS or not all(digits):
            return None
        numbers |= {int("".join(number)) for number in product(*digits)}
    return numbers


def _list_digits(choice: str) -> list[str]:
    digits: list[str] = []
    for first, last, single in _RANGE.findall(choice):
        digits += [single] if single else [str(n) for n in range(int(first), int(last) + 1)]
    return digits
