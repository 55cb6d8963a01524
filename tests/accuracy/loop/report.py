"""Device bytes before and after one recorded run on a GPU, as a table for ``docs/accuracy.md``.

Recorded runs stand for measurements, one at a time; each answer is held against what its own
question took.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import permutations
from statistics import median

from service.calibration.key import build_calibration_key
from service.estimator.memory.overheads.overheads import estimate_communicators
from service.estimator.values.result import Estimate
from service.jobs.contract import TrainTask
from tests.accuracy.real.closing import Sweep, answer_case, learn_rows, load_sweep
from tests.gpu.sweep.case import Case, Row
from tests.gpu.sweep.predict import load_case_architecture

SWEEPS = (load_sweep("h100"), load_sweep("h200"))
QUESTION, NEIGHBOUR, DEPTH, RANK = (
    "the same question",
    "another batch or length",
    "all layers, of two or three",
    "one of several ranks, alone",
)
_HEADINGS = (
    "measured is",
    "answers",
    "before: median",
    "max",
    "after: median",
    "max",
    "half width",
)
_INTRODUCTION = """\
## After one measurement on a GPU

What one recorded run teaches about device bytes: each row of the sweeps of one H100 and one H200 in turn is the one that was
measured, goes the way of a measurement, and the answers are held against what their own questions took. *half width* is the
median of the interval's wider half after it. A rank of several ran without the communicators of its job, which are not counted
here, and their interval stays.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopScore:
    """Relative errors of a question's device bytes, and the interval's wider half after."""

    before: float
    after: float
    half_width: float


@cache
def score_loops() -> dict[str, tuple[LoopScore, ...]]:
    """Return the scores by what was measured."""
    return {
        QUESTION: tuple(_score(sweep, row, [row]) for sweep, row in _iter_whole()),
        NEIGHBOUR: tuple(
            _score(sweep, row, [measured]) for sweep, measured, row in _iter_neighbours()
        ),
        DEPTH: tuple(
            _score(sweep, row, slices)
            for sweep, row in _iter_whole()
            if (slices := list_slices(sweep, row))
        ),
        RANK: tuple(_score(sweep, row, [row]) for sweep, row in _iter_ranks()),
    }


def count_links_bytes(case: Case) -> int:
    """Return the communicators that a lone rank's job will have."""
    layout = case.layout
    is_trained = isinstance(case.task, TrainTask)
    linked = layout.num_gpus if is_trained else layout.num_gpus // layout.data_parallel
    return estimate_communicators(linked).point


def list_slices(sweep: Sweep, row: Row) -> list[Row]:
    """Return the recorded slices of a row's model."""
    return [
        part for name, part in sweep.rows.items() if name.startswith(f"{row.case.name} layers ")
    ]


def _iter_whole() -> Iterator[tuple[Sweep, Row]]:
    for sweep in SWEEPS:
        for row in sweep.rows.values():
            if row.case.layers is None and row.case.layout.num_gpus == 1:
                yield sweep, row


def _iter_ranks() -> Iterator[tuple[Sweep, Row]]:
    for sweep in SWEEPS:
        for row in sweep.rows.values():
            if row.case.layout.num_gpus > 1:
                yield sweep, row


def _iter_neighbours() -> Iterator[tuple[Sweep, Row, Row]]:
    whole = list(_iter_whole())
    keys = {id(row): _build_key(row.case) for _, row in whole}
    for (sweep, measured), (other, row) in permutations(whole, 2):
        if sweep is other and keys[id(measured)] == keys[id(row)]:
            yield sweep, measured, row


def _build_key(case: Case) -> str:
    return build_calibration_key(load_case_architecture(case), case.task.workload, case.layout)


def _score(sweep: Sweep, row: Row, measured: Sequence[Row]) -> LoopScore:
    assert row.measured is not None
    assert row.measured.device_bytes is not None
    reading = row.measured.device_bytes + count_links_bytes(row.case)
    after = answer_case(sweep, row.case, learn_rows(sweep, measured))
    return LoopScore(
        before=answer_case(sweep, row.case).device_bytes / reading - 1,
        after=after.device_bytes / reading - 1,
        half_width=_compute_half_width(after),
    )


def _compute_half_width(answer: Estimate) -> float:
    interval, point = answer.device_interval, answer.device_bytes
    return max(interval.high - point, point - interval.low) / point


def list_table() -> list[tuple[str, ...]]:
    """Return the table, headings first."""
    return [
        _HEADINGS,
        *(_format_line(name, scores) for name, scores in score_loops().items()),
    ]


def _format_line(name: str, scores: Sequence[LoopScore]) -> tuple[str, ...]:
    before, after = ([abs(error) for error in errors] for errors in _transpose(scores))
    shares = (
        median(before),
        max(before),
        median(after),
        max(after),
        median(score.half_width for score in scores),
    )
    return name, str(len(scores)), *(f"{share:.2%}" for share in shares)


def _transpose(scores: Sequence[LoopScore]) -> tuple[list[float], list[float]]:
    return [score.before for score in scores], [score.after for score in scores]


def format_text() -> str:
    """Return the table for a terminal."""
    table = list_table()
    widths = [max(len(row[index]) for row in table) for index in range(len(_HEADINGS))]
    lines = (
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        for row in table
    )
    return "device bytes after one measurement\n" + "\n".join(lines) + "\n"


def format_markdown() -> str:
    """Return a section of ``docs/accuracy.md``."""
    heading, *rows = list_table()
    rule = ("---", *["---:"] * (len(heading) - 1))
    lines = (f"| {' | '.join(row)} |" for row in (heading, rule, *rows))
    return f"{_INTRODUCTION}\n" + "\n".join(lines) + "\n"
