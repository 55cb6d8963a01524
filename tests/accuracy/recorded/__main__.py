"""Records types and compares them: ``python -m tests.accuracy.recorded [TYPE or TASK ...]``."""

import argparse
import gc
import json
import signal
import sys
import traceback
import warnings
from dataclasses import asdict
from pathlib import Path

from transformers import logging

from tests.accuracy.recorded.configs import list_types
from tests.accuracy.recorded.scoring import Score, score


def main(arguments: list[str]) -> int:
    """Print one line a type."""
    parser = argparse.ArgumentParser(prog="python -m tests.accuracy.recorded", description=__doc__)
    parser.add_argument("names", nargs="*", help="types or tasks, all when none is named")
    parser.add_argument("--part", default="0/1", help="every n-th type, as in 0/2")
    parser.add_argument("--append", type=Path, help="file of JSON lines to add scores to")
    parser.add_argument("--raise", dest="raises", action="store_true")
    parser.add_argument("--seconds", type=float, default=0, help="of CPU for a type, 0 for any")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGPROF, _stop)
    warnings.simplefilter("ignore")
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]  # transformers leaves it untyped
    part, parts = map(int, options.part.split("/"))
    chosen = [item for item in list_types() if not options.names or {*item} & {*options.names}]
    gc.freeze()
    for model_type, task in chosen[part::parts]:
        signal.setitimer(signal.ITIMER_PROF, options.seconds)
        try:
            scored = score(model_type, task)
        except Exception as error:
            if options.raises:
                raise
            last = traceback.extract_tb(error.__traceback__)[-1]
            scored = Score(
                model_type=model_type,
                task=task,
                reason=(
                    f"{type(error).__name__}: {str(error)[:200]} "
                    f"({Path(last.filename).name}, line {last.lineno})"
                ),
            )
        sys.stdout.write(_line(scored))
        sys.stdout.flush()
        if options.append:
            with options.append.open("a") as lines:
                lines.write(json.dumps(asdict(scored)) + "\n")
    return 0


def _stop(_signal: int, _frame: object) -> None:
    message = "not run: it takes longer than this run gives a type"
    raise TimeoutError(message)


def _line(scored: Score) -> str:
    begin = f"{scored.model_type:24} {scored.task:8} {scored.seconds:5.1f} s "
    if scored.reason is not None:
        return f"{begin}refused: {scored.reason}\n"
    counts = scored.parameters
    same = "" if counts is None or counts[0] == counts[1] else f" parameters {counts}"
    written = (
        ""
        if scored.written is None or scored.written == scored.recorded
        else f" written {scored.written}"
    )
    return f"{begin}{scored.recorded} of {scored.traced} {scored.difference:+.4%}{written}{same}\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
