"""Measures every type of transformers: ``python -m tests.accuracy.types [TYPE ...]``.

Each is a process of its own with limits of time and memory, and its row is kept at once: a run that
was ended goes on where it was, and types that are named are measured anew. ``--write`` renders
docs/types.md from the rows and measures nothing; it needs no torch.
"""

import argparse
import os
import sys
from collections.abc import Callable

from tests.accuracy.types.limits import limit_process
from tests.accuracy.types.report import PAGE, render
from tests.accuracy.types.rows import Row, append_row, read_rows, write_rows

SECONDS = 120
"""Of a processor, for a type."""


def main(arguments: list[str]) -> int:
    """Measure types, or write the page."""
    parser = argparse.ArgumentParser(prog="python -m tests.accuracy.types", description=__doc__)
    parser.add_argument("types", nargs="*", help="types to measure anew, all missing when none")
    parser.add_argument("--write", action="store_true", help="write docs/types.md")
    options = parser.parse_args(arguments)
    if options.write:
        PAGE.write_text(render(list(read_rows().values())), encoding="utf-8")
        return 0
    # Loading torch takes seconds: whoever writes the page does without.
    from transformers import CONFIG_MAPPING  # noqa: PLC0415

    from tests.accuracy.types.measure import measure  # noqa: PLC0415

    known = read_rows()
    for model_type in options.types or [name for name in CONFIG_MAPPING if name not in known]:
        row = _measure_apart(model_type, measure)
        sys.stdout.write(f"{row.model_type:40} {row.counted} {row.answered} {row.error}\n")
    write_rows(read_rows().values())
    return 0


def _measure_apart(model_type: str, measure: Callable[[str], Row]) -> Row:
    """Measure a type in a forked process, which writes its row."""
    child = os.fork()
    if not child:
        limit_process(SECONDS)
        append_row(measure(model_type))
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if status:
        append_row(Row(model_type=model_type, reason=f"not measured: it takes over {SECONDS} s"))
    return read_rows()[model_type]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
