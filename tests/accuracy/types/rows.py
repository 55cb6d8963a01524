"""What was found of each type of transformers, as lines of a file; no torch."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[2] / "data" / "types.jsonl"

_LISTS = ("passes", "small", "gradients")
_RARE = frozenset({"runs", "shallow"})
"""Fields that are left out where they are false."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One type: its parameters twice, and its recording.

    ``counted`` and ``answered`` are parameters of the default config, by transformers' own class on
    the meta device and by Headroom; ``reason`` says why there are none. ``traced`` and ``recorded``
    are highest live bytes of a training step in bfloat16, by a plain pass and by the recording;
    where ``shallow``, of a config of few layers, whose recording is not shipped; ``small`` are both
    of a small step, ``gradients`` the bytes of its gradients. Where ``runs``,
    one pass of it runs on tensors without data, as a recording needs, and none was made.
    """

    model_type: str
    folder: str = ""
    model_class: str = ""
    written: bool = False
    counted: int | None = None
    answered: int | None = None
    reason: str = ""
    passes: tuple[str, ...] = ()
    traced: int | None = None
    recorded: int | None = None
    small: tuple[int, ...] = ()
    gradients: tuple[int, ...] = ()
    refused: str = ""
    shallow: bool = False
    runs: bool = False
    releases: dict[str, str] = field(default_factory=dict)

    @property
    def is_exact(self) -> bool:
        """Whether both counts are there and equal."""
        return self.counted is not None and self.counted == self.answered

    @property
    def error(self) -> float | None:
        """Return how far the recording is off, as a part of the traced bytes.

        Of a large step, a small one, and its gradients it is the furthest.
        """
        if self.traced is None or self.recorded is None:
            return None
        pairs = ((self.traced, self.recorded), self.small, self.gradients)
        return max(abs(pair[1] - pair[0]) / (pair[0] or 1) for pair in pairs if pair)


def read_rows(path: Path = RESULTS) -> dict[str, Row]:
    """Return the rows of a file by type, the last of each."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return {row.model_type: row for row in map(_read_row, lines)}


def write_rows(rows: Iterable[Row], path: Path = RESULTS) -> None:
    """Write all rows, sorted by type."""
    ordered = sorted(rows, key=lambda row: row.model_type.lower())
    path.write_text("".join(f"{_write_row(row)}\n" for row in ordered), encoding="utf-8")


def append_row(row: Row, path: Path = RESULTS) -> None:
    """Write a row behind those of a file, in the place of an earlier one of its type."""
    with path.open("a", encoding="utf-8") as lines:
        lines.write(f"{_write_row(row)}\n")


def _write_row(row: Row) -> str:
    """Return the line of a row, without what is empty."""
    fields = asdict(row).items()
    return json.dumps({name: v for name, v in fields if v or (v == 0 and name not in _RARE)})


def _read_row(line: str) -> Row:
    fields: dict[str, Any] = json.loads(line)
    return Row(**fields | {name: tuple(fields.get(name, ())) for name in _LISTS})
