"""Compares written families with recordings: ``python -m tests.accuracy.written [TYPE ...]``.

Rows go into ``tests/data/recordings/written.jsonl`` in place of those that they repeat, and with
``--write`` alone the page ``docs/written-types.md`` is made of them.
"""

import argparse
import signal
import sys
import warnings

from transformers import logging

from tests.accuracy.written.comparing import compare
from tests.accuracy.written.page import PAGE, render_page
from tests.accuracy.written.questions import QUESTIONS
from tests.accuracy.written.rows import Row, read_rows, write_rows
from tests.tiny_models import TINY


def main(arguments: list[str]) -> int:
    """Compare the named types and keep their rows."""
    parser = argparse.ArgumentParser(prog="python -m tests.accuracy.written", description=__doc__)
    parser.add_argument("types", nargs="*", choices=[*TINY, []], help="all when none is named")
    parser.add_argument("--questions", nargs="+", choices=list(QUESTIONS), default=list(QUESTIONS))
    parser.add_argument("--missing", action="store_true", help="leave out rows that there are")
    parser.add_argument("--seconds", type=float, default=0, help="of CPU for a type, 0 for any")
    parser.add_argument("--write", action="store_true", help="make the page of the rows alone")
    options = parser.parse_args(arguments)
    if options.write:
        PAGE.write_text(render_page(read_rows()))
        return 0
    signal.signal(signal.SIGPROF, _stop)
    warnings.simplefilter("ignore")
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]  # transformers leaves it untyped
    for model_type in options.types or TINY:
        there = {row.question for row in read_rows() if row.model_type == model_type}
        names = [name for name in options.questions if not options.missing or name not in there]
        signal.setitimer(signal.ITIMER_PROF, options.seconds)
        for row in compare(model_type, names):
            write_rows([row])
            sys.stdout.write(_line(row))
            sys.stdout.flush()
    return 0


def _stop(_signal: int, _frame: object) -> None:
    message = "not recorded: it takes longer than this run gives a type"
    raise TimeoutError(message)


def _line(row: Row) -> str:
    begin = f"{row.model_type:14} {row.question:20} "
    if row.refusal is not None:
        return f"{begin}{row.refusal}\n"
    if not row.difference:
        return f"{begin}equal\n"
    return (
        f"{begin}{row.difference:+}\n  written  {row.written}\n  recorded {row.recorded}\n"
        f"  traced   {row.traced}\n"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
