"""Rows of the comparison, kept as JSON lines."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

ROWS = Path(__file__).resolve().parents[2] / "data" / "recordings" / "written.jsonl"
Instants = Mapping[str, int]
"""Allocated bytes by instant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One question to one type, answered three times.

    A trace is made where the two answers differ; ``refusal`` says why one of them is missing.
    """

    model_type: str
    question: str
    written: Instants | None = None
    recorded: Instants | None = None
    traced: Instants | None = None
    refusal: str | None = None

    @property
    def difference(self) -> int:
        """Bytes by which the recording's answer is above the written one, at most."""
        if self.recorded is None or self.written is None:
            return 0
        recorded, written = self.recorded, self.written
        return max((recorded[name] - written[name] for name in written), key=abs)


def read_rows() -> list[Row]:
    """Return every row."""
    if not ROWS.exists():
        return []
    return [Row(**json.loads(line)) for line in ROWS.read_text().splitlines()]


def write_rows(rows: Sequence[Row]) -> None:
    """Keep rows in place of those of the same type and question."""
    kept = {(row.model_type, row.question): row for row in (*read_rows(), *rows)}
    lines = [json.dumps(asdict(kept[key])) for key in sorted(kept)]
    ROWS.write_text("".join(f"{line}\n" for line in lines))
