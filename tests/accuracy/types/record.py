"""Records models for the catalogue: ``python -m tests.accuracy.types.record NAME ...``.

A name is a type, whose default config is recorded, or a checkpoint of ``published.json``.

Each in a process of its own, as a worker does it. The document of each is kept, shipped or not;
``--kept`` ships what the folder has rather than record it again.
"""

import argparse
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from service.usecases.recordings.documents import pack_document, unpack_document
from service.usecases.recordings.recorder import Recorded, Refused, record_config
from tests.accuracy.types.configs import complete_config, list_required, make_default_config
from tests.accuracy.types.measure import compare_steps, describe_steps
from tests.accuracy.types.rows import Row, read_rows, write_rows
from tests.accuracy.types.shipping import FOLDER, ship
from tests.accuracy.types.subjects import Subject, find_subject

KEPT = Path("build") / "recordings"
"""Folder of all documents, which git ignores."""


def main(arguments: list[str]) -> int:
    """Record types one after another, and write what became of each into its row."""
    parser = argparse.ArgumentParser(prog="python -m tests.accuracy.types.record")
    parser.add_argument("names", nargs="+", help="types without a module here, or checkpoints")
    parser.add_argument("--into", type=Path, default=FOLDER, help="folder of the recordings")
    parser.add_argument("--documents", type=Path, default=KEPT, help="folder of all documents")
    parser.add_argument("--kept", action="store_true", help="ship documents that are kept there")
    options = parser.parse_args(arguments)
    for word in options.names:
        subject = find_subject(word)
        row = read_rows()[subject.model_type]
        path = options.documents / f"{word}.json.gz"
        if options.kept and path.is_file():
            row = _ship(row, subject, unpack_document(path.read_bytes()), options.into)
        else:
            row = _record(row, subject, path, options.into)
        write_rows((read_rows() | {row.model_type: row}).values())
        sys.stdout.write(f"{word}: {row.refused or row.error}\n")
        sys.stdout.flush()
    return 0


def make_config(subject: Subject) -> dict[str, Any]:
    """Return the config that is recorded, with all of its fields."""
    if subject.config is None:
        return make_default_config(subject.model_type)
    return complete_config(subject.config)


def _record(row: Row, subject: Subject, path: Path, folder: Path) -> Row:
    """Record a config and keep its document; returns the row of its type."""
    outcome = record_config(make_config(subject), on_update=lambda _: None)
    if isinstance(outcome, Recorded):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(pack_document(outcome.document))
        return _ship(row, subject, outcome.document, folder)
    reason = outcome.message if isinstance(outcome, Refused) else str(outcome)
    return row if row.passes else replace(row, refused=reason)


def _ship(row: Row, subject: Subject, document: Mapping[str, Any], folder: Path) -> Row:
    if subject.config is not None:
        subject = replace(subject, required=tuple(list_required(subject.config)))
    proof = ship(document, subject, compare_steps, folder)
    if proof.name is None:
        miss = document.get("difference", 0)
        reason = (
            f"steps of all layers and of its recording, large, small and their gradients, take "
            f"{proof.steps}; a piece of it missed a plain pass by {miss:,}"
        )
        return row if row.passes else replace(row, refused=reason)
    return replace(row, passes=tuple(document["passes"]), refused="", **describe_steps(proof.steps))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
