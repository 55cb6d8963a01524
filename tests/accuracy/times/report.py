"""Writes the scores of times down, for a terminal and for ``docs/accuracy.md``."""

from collections.abc import Iterator, Sequence

from tests.accuracy.times.rows import DECODE, PREFILL, STEP, read_timed_rows
from tests.accuracy.times.scoring import TimedScore, TimeErrors, score_rows, summarise_errors

Cells = tuple[str, ...]
_HEADINGS: Cells = ("GPU", "quantity", "times", "median", "p90", "bias")
ALL = "all"
_INTRODUCTION = """\
## Times on GPUs

Steps, prefills and decode steps that `make gpu-sweep` measured on one H100 and one H200 (torch 2.11, transformers 5.23;
`tests/data/truth/gpu`), the median of three rounds each. Errors are relative to what was measured. The rates of both GPUs (the
host's seconds for a launch, the shares of the peaks that kernels reach) are fitted to these rows, as few numbers for all of
them; *models left out* scores each model at rates fitted to the others. Most of these runs wait for the host, and rounds of
one run differ by a tenth.
"""


def list_table(scores: Sequence[TimedScore]) -> list[Cells]:
    """Return the table, headings first."""
    return [_HEADINGS, *_iter_lines(scores)]


def _iter_lines(scores: Sequence[TimedScore]) -> Iterator[Cells]:
    for file in dict.fromkeys(score.file for score in scores):
        for quantity in (STEP, PREFILL, DECODE):
            chosen = [s for s in scores if s.file == file and s.quantity == quantity]
            if chosen:
                yield _format_line(file, quantity, summarise_errors(chosen))
    yield _format_line(ALL, "", summarise_errors(scores))


def _format_line(file: str, quantity: str, errors: TimeErrors) -> Cells:
    shares = (f"{value:.1%}" for value in (errors.median, errors.p90, errors.bias))
    return (file.removeprefix("sweep_").upper(), quantity, str(errors.num), *shares)


def format_text(scores: Sequence[TimedScore] | None = None) -> str:
    """Return the table for a terminal, of the shipped rates unless scores are given."""
    table = list_table(score_rows(read_timed_rows()) if scores is None else scores)
    widths = [max(len(row[index]) for row in table) for index in range(len(_HEADINGS))]
    lines = (
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        for row in table
    )
    return "times on GPUs\n" + "\n".join(lines) + "\n"


def format_markdown() -> str:
    """Return a section of ``docs/accuracy.md``."""
    heading, *rows = list_table(score_rows(read_timed_rows()))
    table = [heading, ("---", "---", *["---:"] * (len(heading) - 2)), *rows]
    return f"{_INTRODUCTION}\n" + "\n".join(f"| {' | '.join(row)} |" for row in table) + "\n"
