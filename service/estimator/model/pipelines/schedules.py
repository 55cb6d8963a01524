"""Passes of one pipeline stage in their order, by schedule.

Megatron-LM's ``core/pipeline_parallel/schedules.py`` and torch 2.13's
``distributed/pipelining/schedules.py``, which torchtitan runs; waiting is left out.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import NamedTuple

from service.estimator.model.pipelines.passes import Pass, PassKind
from service.estimator.model.pipelines.v_schedules import iter_dual_pipe_v, iter_zbv
from service.estimator.values.pipeline import PipelineSchedule


class Interleaving(NamedTuple):
    """Sizes of an interleaved schedule on one stage."""

    stages: int
    chunks: int
    stage: int
    micro_batches: int
    round_size: int
    """Micro-batches that pass a chunk before the next chunk's turn."""


def list_passes(
    schedule: PipelineSchedule,
    stages: int,
    chunks: int,
    stage: int,
    micro_batches: int,
    *,
    round_size: int | None = None,
) -> tuple[Pass, ...]:
    """Return the passes of a stage in one step.

    Chunks are counted on the stage. ``round_size`` None is as many micro-batches as divide them
    into rounds of a stage each.
    """
    size = round_size or get_round_size(stages, micro_batches)
    return tuple(_PASSES[schedule](Interleaving(stages, chunks, stage, micro_batches, size)))


def get_round_size(stages: int, micro_batches: int) -> int:
    """Return the micro-batches that pass a chunk before the next one's turn."""
    return micro_batches // max(1, micro_batches // stages)


def _iter_gpipe(sizes: Interleaving) -> Iterator[Pass]:
    """Yield all forwards, then all backwards."""
    for kind in (PassKind.FORWARD, PassKind.BACKWARD):
        yield from (Pass(kind, 0, index) for index in range(sizes.micro_batches))


def _iter_looped(sizes: Interleaving) -> Iterator[Pass]:
    """Yield breadth first (arXiv:2211.05953): all micro-batches through a chunk, then the next."""
    batches = range(sizes.micro_batches)
    for chunk in range(sizes.chunks):
        yield from (Pass(PassKind.FORWARD, chunk, index) for index in batches)
    for chunk in reversed(range(sizes.chunks)):
        yield from (Pass(PassKind.BACKWARD, chunk, index) for index in reversed(batches))


def _iter_interleaved(
    sizes: Interleaving, *, hops: int = 2, splits_backward: bool = False
) -> Iterator[Pass]:
    """Yield the passes of interleaved 1F1B.

    They are a warm-up, a forward and a backward in turn, and the backwards that are left. ``hops``
    are forwards ahead for each stage that follows. With a split backward the stage's first
    gradients of weights wait for as many backwards as its index says.
    """
    total, warmup = sizes.micro_batches * sizes.chunks, _count_warmup(sizes, hops)
    kind = PassKind.INPUT if splits_backward else PassKind.BACKWARD
    backwards = _iter_turns(sizes, kind)
    weights = _iter_turns(sizes, PassKind.WEIGHT)
    for index, forward in enumerate(_iter_turns(sizes, PassKind.FORWARD)):
        yield forward
        if index >= warmup:
            yield next(backwards)
            if splits_backward and index - warmup >= sizes.stage:
                yield next(weights)
    for index, backward in enumerate(backwards, start=total - warmup):
        yield backward
        if splits_backward and index >= sizes.stage:
            yield next(weights)
    if splits_backward:
        yield from weights


def _count_warmup(sizes: Interleaving, hops: int) -> int:
    ahead = (sizes.chunks - 1) * sizes.round_size + hops * (sizes.stages - 1 - sizes.stage)
    return min(ahead, sizes.micro_batches * sizes.chunks)


def _iter_turns(sizes: Interleaving, kind: PassKind) -> Iterator[Pass]:
    """Yield the passes of one kind, a round through each chunk.

    Backwards begin with the last chunk.
    """
    size, counts = sizes.round_size, [0] * sizes.chunks
    for index in range(sizes.micro_batches * sizes.chunks):
        turn = index // size % sizes.chunks
        chunk = turn if kind is PassKind.FORWARD else sizes.chunks - 1 - turn
        yield Pass(kind, chunk, counts[chunk])
        counts[chunk] += 1


def _iter_one_by_one(sizes: Interleaving) -> Iterator[Pass]:
    """Yield 1F1B of one chunk, which needs no round."""
    return _iter_interleaved(sizes._replace(chunks=1), hops=1)


def _iter_v(
    passes: Callable[[int, int, int], Iterable[Pass]], sizes: Interleaving
) -> Iterator[Pass]:
    return iter(passes(sizes.stages, sizes.stage, sizes.micro_batches))


_PASSES: dict[PipelineSchedule, Callable[[Interleaving], Iterator[Pass]]] = {
    PipelineSchedule.GPIPE: _iter_gpipe,
    PipelineSchedule.ONE_F_ONE_B: _iter_one_by_one,
    PipelineSchedule.INTERLEAVED: _iter_interleaved,
    PipelineSchedule.LOOPED_BFS: _iter_looped,
    PipelineSchedule.INTERLEAVED_ZERO_BUBBLE: partial(
        _iter_interleaved, hops=1, splits_backward=True
    ),
    PipelineSchedule.ZBV: partial(_iter_v, iter_zbv),
    PipelineSchedule.DUAL_PIPE_V: partial(_iter_v, iter_dual_pipe_v),
}
