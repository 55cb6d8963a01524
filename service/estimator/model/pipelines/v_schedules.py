"""Passes of V-shaped schedules.

A stage has a chunk on the way down and one on the way up. torch 2.13
``distributed/pipelining/schedules.py``: ``ScheduleZBVZeroBubble`` (arXiv:2401.10241, section 6) and
``ScheduleDualPipeV``.
"""

from collections import Counter, deque
from collections.abc import Iterator

from service.estimator.model.pipelines.passes import Pass, PassKind

F, B, I, W = PassKind.FORWARD, PassKind.BACKWARD, PassKind.INPUT, PassKind.WEIGHT  # noqa: E741 - the paper's


class _Counted:
    """Passes that count the micro-batches of each chunk by themselves."""

    def __init__(self) -> None:
        self.passes: list[Pass] = []
        self.counts: Counter[tuple[PassKind, int]] = Counter()
        self.waiting: deque[Pass] = deque()

    def add(self, kind: PassKind, chunk: int) -> None:
        """Add the next micro-batch's pass.

        A backward of both parts counts as each of them.
        """
        counted = I if kind is B else kind
        index = self.counts[counted, chunk]
        self.passes.append(Pass(kind, chunk, index))
        self.counts[counted, chunk] += 1
        if kind is B:
            self.counts[W, chunk] += 1

    def add_weights(self) -> None:
        """Add the oldest weight gradients that wait, where any do."""
        if self.waiting:
            self.passes.append(self.waiting.popleft())

    def add_input(self, chunk: int) -> None:
        """Add a backward towards the inputs, whose weights wait."""
        self.waiting.append(Pass(W, chunk, self.counts[I, chunk]))
        self.add(I, chunk)


def iter_zbv(stages: int, stage: int, micro_batches: int) -> Iterator[Pass]:
    """Yield the passes of a stage of ZBV."""
    total, stage_passes = max(2 * stages - 1, micro_batches), _Counted()
    counts = stage_passes.counts
    _add_each(stage_passes, 2 * (stages - stage) - 1, "F0")
    _add_each(stage_passes, stage, "F1 F0")
    _add_each(stage_passes, stages - stage, "F1 I1 W1")
    while counts[F, 1] < counts[F, 0] or counts[F, 0] < total:
        if counts[F, 0] < total:
            stage_passes.add(F, 0)
        _add_each(stage_passes, 1, "I0 W0 F1 I1 W1")
    _add_each(stage_passes, stage, "I0 I1")
    _add_each(stage_passes, stages - stage, "I0 W0")
    _add_each(stage_passes, counts[I, 1] - counts[W, 1], "W1")
    _add_each(stage_passes, counts[I, 0] - counts[W, 0], "W0")
    return (step for step in stage_passes.passes if step.micro_batch < micro_batches)


def iter_dual_pipe_v(stages: int, stage: int, micro_batches: int) -> Iterator[Pass]:
    """Yield the passes of a stage of DualPipeV.

    Overlapped ones come one after the other.
    """
    stage_passes, left = _Counted(), stages - stage - 1
    _add_each(stage_passes, 2 * left, "F0")
    _add_each(stage_passes, stage + 1, "F0 F1")
    for _ in range(left):
        stage_passes.add_input(1)
        stage_passes.add_weights()
        stage_passes.add(F, 1)
    _add_each(stage_passes, micro_batches - 2 * stages + stage + 1, "F0 B1 F1 B0")
    _add_each(stage_passes, left, "B1 F1 B0")
    _add_last(stage_passes, stage)
    zero_bubble = True
    for _ in range(left):
        stage_passes.add_weights()
        _add_backward(stage_passes, 0, splits=zero_bubble)
    for _ in range(stage + 1):
        stage_passes.add_weights()
    return iter(stage_passes.passes)


def _add_last(stage_passes: _Counted, stage: int) -> None:
    """Add the last backwards of both chunks, split from the half on."""
    half, splits = (stage + 1) // 2, False
    for index in range(stage + 1):
        splits = splits or (index == half and stage % 2 == 1)
        _add_backward(stage_passes, 1, splits=splits)
        splits = splits or (index == half and stage % 2 == 0)
        _add_backward(stage_passes, 0, splits=splits)


def _add_backward(stage_passes: _Counted, chunk: int, *, splits: bool) -> None:
    if splits:
        stage_passes.add_input(chunk)
    else:
        stage_passes.add(B, chunk)


def _add_each(stage_passes: _Counted, times: int, steps: str) -> None:
    """Add passes by letter and chunk, such as ``F0``, so many times."""
    kinds = {"F": F, "B": B, "I": I, "W": W}
    for _ in range(times):
        for step in steps.split():
            stage_passes.add(kinds[step[0]], int(step[1]))
