"""Micro-batches in flight on a stage while a pass runs."""

from typing import NamedTuple

from service.estimator.model.pipelines.passes import Pass, PassKind
from service.estimator.model.pipelines.schedules import get_round_size, list_passes
from service.estimator.values.layout import Layout
from service.estimator.values.memo import keep_latest
from service.estimator.values.pipeline import ONE_CHUNK, PipelineSchedule

_STEADY_ROUNDS = 4
"""Rounds after which the passes of a schedule repeat: warm-up ends within the second."""
_ALL_KEPT = frozenset({PipelineSchedule.GPIPE, PipelineSchedule.LOOPED_BFS})
"""Schedules whose backwards begin after the last forward, and drop chunk by chunk from the last."""
_ENDS = frozenset({PassKind.BACKWARD, PassKind.WEIGHT})
"""Passes after which a micro-batch's tensors are dropped."""


class Moment(NamedTuple):
    """A pass of a chunk, and the micro-batches in flight.

    They are counted by chunk, and the pass's own is among them.
    """

    kind: PassKind
    chunk: int
    counts: tuple[int, ...]
    waiting: tuple[int, ...] = ()
    """Micro-batches of each chunk that wait for the gradients of weights, where any ever do."""


def list_moments(layout: Layout, stage: int, micro_batches: int) -> tuple[Moment, ...]:
    """Return the moments of a stage that no other one exceeds."""
    return _list_moments(
        layout.schedule,
        layout.pipeline_parallel,
        layout.virtual_pipeline_stages,
        stage,
        micro_batches,
    )


@keep_latest(4096)
def _list_moments(
    schedule: PipelineSchedule, stages: int, chunks: int, stage: int, micro_batches: int
) -> tuple[Moment, ...]:
    if schedule in ONE_CHUNK | _ALL_KEPT:
        kept = micro_batches if schedule in _ALL_KEPT else min(stages - stage, micro_batches)
        return tuple(
            Moment(kind, chunk, (kept,) * (chunk + 1) + (0,) * (chunks - 1 - chunk))
            for kind in (PassKind.FORWARD, PassKind.BACKWARD)
            for chunk in range(chunks)
        )
    size = get_round_size(stages, micro_batches)
    fewer = min(micro_batches, _STEADY_ROUNDS * size)
    passes = list_passes(schedule, stages, chunks, stage, fewer, round_size=size)
    return find_moments(passes, chunks)


def find_moments(passes: tuple[Pass, ...], chunks: int) -> tuple[Moment, ...]:
    """Return the moments of passes, without those that another one exceeds everywhere."""
    counts, waiting, seen = [0] * chunks, [0] * chunks, dict[Moment, None]()
    splits = any(kind is PassKind.INPUT for kind, _, _ in passes)
    for kind, chunk, _ in passes:
        if kind is PassKind.FORWARD:
            counts[chunk] += 1
        waiting[chunk] += kind is PassKind.INPUT
        seen[Moment(kind, chunk, tuple(counts), tuple(waiting) if splits else ())] = None
        waiting[chunk] -= kind is PassKind.WEIGHT
        if kind in _ENDS:
            counts[chunk] -= 1
    by_pass: dict[tuple[PassKind, int], list[Moment]] = {}
    for moment in seen:
        by_pass.setdefault((moment.kind, moment.chunk), []).append(moment)
    return tuple(
        moment
        for moment in seen
        if not any(_exceeds(other, moment) for other in by_pass[moment.kind, moment.chunk])
    )


def _exceeds(other: Moment, moment: Moment) -> bool:
    return other is not moment and all(
        more >= fewer
        for more, fewer in zip(
            (*other.counts, *other.waiting), (*moment.counts, *moment.waiting), strict=True
        )
    )
