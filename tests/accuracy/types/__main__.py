"""Measures every type of transformers: ``python -m tests.accuracy.types [TYPE ...]``.

Each is a process of its own with limits of time and memory, and its row is kept at once: a run that
was ended goes on where it was, and types that are named are measured anew. ``--write`` renders
docs/types.md from the rows and measures nothing; it needs no torch.
"""

import argparse
import os
import resource
import sys
from collections.abc import Callable
from pathlib import Path

from tests.accuracy.types.report import PAGE, render
from tests.accuracy.types.rows import RESULTS, Row, read_rows, write_row, write_rows

SECONDS = 120
"""Of a processor, for a type."""
MEMORY_BYTES = 4 * 2**30
"""Beyond the libraries."""


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
        _limit()
        _append(measure(model_type))
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if status:
        _append(Row(model_type=model_type, reason=f"not measured: it takes over {SECONDS} s"))
    return read_rows()[model_type]


def _append(row: Row, path: Path = RESULTS) -> None:
    with path.open("a", encoding="utf-8") as lines:
        lines.write(f"{write_row(row)}\n")


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 5))
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    limit = pages * resource.getpagesize() + MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
