"""Writes the scores of times down, for a terminal and for ``docs/accuracy.md``."""

from collections.abc import Iterator, Sequence

from tests.accuracy.times.learning import (
    FAST,
    OTHER,
    RIGHT,
    SAME,
    SLOW,
    Lesson,
    score_lesson,
)
from tests.accuracy.times.rows import DECODE, PREFILL, STEP, read_timed_rows
from tests.accuracy.times.scoring import (
    TimedScore,
    TimeErrors,
    correlate_gpus,
    score_rows,
    summarise_errors,
)

Cells = tuple[str, ...]
_HEADINGS: Cells = ("GPU", "quantity", "times", "median", "p90", "bias")
ALL = "all"
_INTRODUCTION = """\
## Times on GPUs

Steps, prefills and decode steps that `make gpu-sweep` measured on one H100 and one H200 (torch 2.11, transformers 5.23;
`tests/data/truth/gpu`), the median of three rounds each. Errors are relative to what was measured. The rates of both GPUs (the
host's seconds for a launch, the shares of the peaks that kernels reach) are fitted to these rows, as few numbers for all of
them. Most of these runs wait for the host, and rounds of
one run differ by a tenth.
"""
_COMMON = """\
Both GPUs ran {num} of these alike. How far a time is off on one says nothing of how far it is off on the other (correlation
{common:.2f}), as it would if an operation were missing of a model: what is left is how fast each host was in that run.
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
    scores = score_rows(read_timed_rows())
    times = _format_table(list_table(scores))
    num, common = correlate_gpus(scores)
    host = _COMMON.format(num=num, common=common)
    return f"{_INTRODUCTION}\n{times}\n{host}\n{_LESSONS}\n{_format_table(list_lessons())}"


_HOSTS = {
    RIGHT: "as fast as believed",
    SLOW: "1.5 times as slow",
    FAST: "1.5 times as fast",
}
_LESSON_HEADINGS: Cells = (
    "host",
    "asked about",
    "times",
    "before: median",
    "p90",
    "after it alone: median",
    "p90",
    "with few tokens beside it: median",
    "p90",
)
_LESSONS = """\
What one measurement teaches about all else on its machine: each of these runs at full depth in turn is the one that was
measured, and all others of that GPU are answered by what it tells. A host that is slower or faster than the shipped rates
believe is one that nobody recorded. One run differs from the rates of its own machine by a standard deviation of 13.5% where
the host decides and 4.8% where the GPU does, so that much is not believed, and what differs by 2.6 times as much is believed as
it is; a measured question itself has its own time. What the GPU decides tells nothing of the host: a probe on a GPU times
another run, of one sequence of 128 tokens, where less than two thirds of its own grow with the host's seconds, and where that
run takes no more than a fifth of the time that the probe has (`--dry-run` says how long). Here a recorded run of the same model
that tells more of the host stands in its place.
"""


def list_lessons() -> list[Cells]:
    """Return the table of times after one measurement, headings first."""
    return [
        _LESSON_HEADINGS,
        *(_format_lesson(score_lesson(host, kind)) for kind in (SAME, OTHER) for host in _HOSTS),
    ]


def _format_lesson(lesson: Lesson) -> Cells:
    shares = (
        f"{value:.1%}"
        for errors in (lesson.before, lesson.alone, lesson.after)
        for value in (errors.median, errors.p90)
    )
    return (_HOSTS[lesson.host], lesson.kind, str(lesson.after.num), *shares)


_WORDS = ("GPU", "quantity", "host", "asked about")
"""Headings of columns that hold no numbers."""


def _format_table(table: Sequence[Cells]) -> str:
    heading, *rows = table
    num_words = sum(cell in _WORDS for cell in heading)
    rule = (*["---"] * num_words, *["---:"] * (len(heading) - num_words))
    return "\n".join(f"| {' | '.join(row)} |" for row in (heading, rule, *rows)) + "\n"
