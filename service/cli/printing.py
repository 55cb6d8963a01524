"""JSON output for programs.

It does without the terminal library that people's tables need.
"""

import json
import sys


def print_json(document: object) -> None:
    """Print one JSON document."""
    sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
