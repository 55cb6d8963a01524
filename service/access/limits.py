"""Limits in words: ``600/minute``."""

import re
from dataclasses import dataclass

SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400}
_WORDS = re.compile(rf"([1-9][0-9]{{0,8}})/({'|'.join(SECONDS)})")
PATTERN = _WORDS.pattern


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """At most ``amount`` in every ``seconds``."""

    amount: int
    seconds: int


def parse_limit(text: str) -> Limit:
    """Read a limit; raises ValueError that says what is right."""
    found = _WORDS.fullmatch(text)
    if found is None:
        message = f"{text!r} is no limit; it must be like 600/minute, per {', '.join(SECONDS)}"
        raise ValueError(message)
    return Limit(amount=int(found[1]), seconds=SECONDS[found[2]])
