"""Patterns that cannot go back: time is linear in the text.

Every repeat is bounded and possessive, so that a text that nearly matches costs one pass.
"""

import re

NUMBER = r"([0-9]{1,12}+(?:\.[0-9]{1,6}+)?+)"
SIGNED = r"(-?+[0-9]{1,12}+(?:\.[0-9]{1,6}+)?+)"
COUNT = r"([0-9]{1,15}+)"
SIZE = rf"{NUMBER} ?+(bytes|KiB|MiB|GiB|TiB|EiB)"
PATTERNS: list[re.Pattern[str]] = []
"""Every pattern of this folder, for the test that none can go back."""


def compile_wording(pattern: str) -> re.Pattern[str]:
    """Compile a pattern and list it."""
    compiled = re.compile(pattern)
    PATTERNS.append(compiled)
    return compiled
