"""Records default configs for the catalogue: ``python -m tests.accuracy.types.record TYPE ...``.

Each in a process of its own, as a worker does it; ``--into`` keeps the documents elsewhere.
"""

import argparse
import sys
from pathlib import Path

from service.usecases.recordings.recorder import Recorded, record_config
from tests.accuracy.types.configs import make_default_config
from tests.accuracy.types.measure import compare_steps
from tests.accuracy.types.shipping import FOLDER, ship


def main(arguments: list[str]) -> int:
    """Record types one after another, and say what became of each."""
    parser = argparse.ArgumentParser(prog="python -m tests.accuracy.types.record")
    parser.add_argument("types", nargs="+", help="types of transformers that have no module here")
    parser.add_argument("--into", type=Path, default=FOLDER, help="folder of the recordings")
    options = parser.parse_args(arguments)
    for model_type in options.types:
        outcome = record_config(make_default_config(model_type), on_update=lambda _: None)
        if isinstance(outcome, Recorded):
            name = ship(outcome.document, compare_steps, options.into)
            line = name or "not shipped: it misses a plain pass by more than a part in ten thousand"
        else:
            line = str(outcome)
        sys.stdout.write(f"{model_type}: {line}\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
