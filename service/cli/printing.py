"""JSON output for programs.

It does without the terminal library that people's tables need.
"""

import json
import sys

from service.terminal.controls import DIRECTIONS

_SPELLED = {code: f"\\u{code:04x}" for code in (*range(0x7F, 0xA0), *DIRECTIONS)}
"""What JSON leaves as it is, though a terminal obeys it."""


def print_json(document: object) -> None:
    """Print one JSON document."""
    text = json.dumps(document, indent=2, ensure_ascii=False)
    sys.stdout.write(text.translate(_SPELLED) + "\n")
