"""The page of written families beside recordings of their types."""

from collections.abc import Sequence
from pathlib import Path

from tests.accuracy.written.explained import EXPLAINED, find_reason
from tests.accuracy.written.questions import QUESTIONS
from tests.accuracy.written.rows import Row
from tests.tiny_models import TINY

PAGE = Path(__file__).resolve().parents[3] / "docs" / "written-types.md"
_HEAD = """# Types written by hand, beside recordings of themselves

`python -m tests.accuracy.written` asks each of the types that are written by hand the same
questions twice: of the family, and of a [recording](concepts.md#architectures-without-a-module) of
transformers' own code. Batches and lengths are none that made the recording; where the answers
differ, a trace of the model decides. Its rows are in `tests/data/recordings/written.jsonl`, and
`--write` makes this page of them.

`equal` is equal to the byte at every instant. A dash is a question that was not asked yet.
"""
_JUDGEMENT = """
## Why the written families stay

| | written by hand | recorded |
| --- | --- | --- |
| bytes, where both answer | equal, but for the rows above | equal |
| lines of code | 8,656 of families, 6,260 of the modules that they share | 4,680 for all types |
| an answer of a small Llama | 3 ms | 4 ms |
| before the first answer | nothing | 5 s of a processor for one number format |
| attention | SDPA, flash, math, eager | what SDPA takes |
| padding masks, packed rows, frozen parts | yes | refused |
| Megatron-LM, torchtitan, pipeline and context ranks | yes | refused |
| how a number came about | a formula, by component | the operators that ran |

A recording has the bytes of a family and says less: of what it refuses, users would lose the
answers. So no family is deleted. A family whose users ask nothing of the right column's refusals
could be, once recordings of all its sizes are shipped.
"""


def render_page(rows: Sequence[Row]) -> str:
    """Return the page in Markdown."""
    by_place = {(row.model_type, row.question): row for row in rows}
    names = [name for name in QUESTIONS if any(row.question == name for row in rows)]
    lines = [f"| type | {' | '.join(names)} |", "| --- |" + " --- |" * len(names)]
    for model_type in sorted(TINY):
        cells = [_render_cell(by_place.get((model_type, name))) for name in names]
        lines.append(f"| {model_type} | {' | '.join(cells)} |")
    reasons = [f"- {', '.join(part.types)}: {part.reason}." for part in EXPLAINED]
    return "\n".join([_HEAD, *lines, "\nDifferences that stay:\n", *reasons]) + "\n" + _JUDGEMENT


def _render_cell(row: Row | None) -> str:
    if row is None:
        return "-"
    if row.refusal is not None:
        return "no recording"
    if not row.difference:
        return "equal"
    explained = "" if find_reason(row) else " (not explained)"
    return f"{row.difference:+,} B{explained}"
