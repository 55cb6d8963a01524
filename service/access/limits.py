"""Rate and quota limits as text: ``600/minute``."""

import re
from dataclasses import dataclass

SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400}
_LIMIT = re.compile(rf"([1-9][0-9]{{0,8}})/({'|'.join(SECONDS)})")
PATTERN = _LIMIT.pattern


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """At most ``amount`` in every ``seconds``."""

    amount: int
    seconds: int


def parse_limit(text: str) -> Limit:
    """Parse a limit such as ``600/minute``; raises ValueError if malformed."""
    match = _LIMIT.fullmatch(text)
    if match is None:
        message = f"{text!r} is no limit; it must be like 600/minute, per {', '.join(SECONDS)}"
        raise ValueError(message)
    return Limit(amount=int(match[1]), seconds=SECONDS[match[2]])
