"""Authorization header of a key."""

import re

_SENDABLE = re.compile(r"[!-~]+")


def format_bearer(key: str) -> str:
    """Return the value of ``Authorization`` for a key.

    White space around it is what the end of a file adds, and is left out. Raises ValueError, which
    does not say the key, for one that no header can carry (RFC 9110, sec. 5.5; RFC 6750, sec. 2.1).
    """
    text = key.strip()
    if _SENDABLE.fullmatch(text) is None:
        position = next(
            (place for place, letter in enumerate(text, 1) if not "!" <= letter <= "~"), None
        )
        what = (
            "is empty"
            if position is None
            else f"holds at its character {position} what is neither a letter, a digit nor a sign"
        )
        message = f"the key {what}; a key is one word of ASCII, such as hr_…, by itself"
        raise ValueError(message)
    return f"Bearer {text}"
