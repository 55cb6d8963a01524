"""Slurm's short form of node names: ``n[01-04,7],c1``."""

import re

from service.formats.inventories.observed import MAX_NODES, InventoryFormatError

_PART = re.compile(r"(?:\[[^\]]*+\]?+|[^,\[]++)++")
"""What is between commas outside of brackets."""
_BRACKET = re.compile(r"(?<![^\[\]])([^\[\]]*+)\[([0-9,-]{1,8192})\]([^\[\]]*)")
_SPAN = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", re.ASCII)


def expand_hostlist(text: str) -> tuple[str, ...]:
    """Return every name of a list, up to a cluster's limit."""
    names: list[str] = []
    for part in _PART.findall(text):
        names += _expand_part(part, MAX_NODES - len(names))
    return tuple(names)


def _expand_part(part: str, limit: int) -> list[str]:
    match = _BRACKET.search(part)
    if match is None:
        if "[" in part or limit < 1:
            _refuse(part)
        return [part]
    numbers: list[str] = []
    for span in match[2].split(","):
        bounds = _SPAN.fullmatch(span)
        if bounds is None:
            _refuse(part)
        else:
            low, high = int(bounds[1]), int(bounds[2] or bounds[1])
            if not 0 <= high - low < limit - len(numbers):
                _refuse(part)
            numbers += (str(number).zfill(len(bounds[1])) for number in range(low, high + 1))
    before, after = part[: match.start()] + match[1], match[3] + part[match.end() :]
    tails = _expand_part(after, limit) if "[" in after else [after]
    if len(numbers) * len(tails) > limit:
        _refuse(part)
    return [f"{before}{number}{tail}" for number in numbers for tail in tails]


def _refuse(part: str) -> None:
    message = f"{part[:60]!r} is no list of {MAX_NODES:,} nodes or fewer"
    raise InventoryFormatError(message)
