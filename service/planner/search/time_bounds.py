"""Which training configurations may keep the limits of time at all: their steps if states were read and written for nothing.

A rank's states are known with its memory alone, and no part of a step takes less time for having more of them: a search that
asks here before memory is estimated loses nothing that is in time.
"""

from collections.abc import Sequence
from math import inf

from service.estimator.speed.training import SECONDS_PER_HOUR, StepClock
from service.estimator.values.workload import ServeWorkload, TrainWorkload
from service.planner.search.layout_options import Batch, Slot, cheapest_of
from service.planner.search.layouts import Space

_ROUNDING = 1e-9
"""Hours of a run and tokens per second are multiplied in another order where they are told."""


class TimeBounds:
    """Times of the steps of one question as parts of its limits, on one kind of GPU."""

    def __init__(self, space: Space, steps: StepClock | None) -> None:
        """Time nothing before it is asked; without a clock of steps nothing is in time."""
        self._space, self._steps, self._limits = space, steps, space.question.limits
        self.most_seconds_per_token = self._most_seconds_per_token()
        self._extremes: dict[int, tuple[Batch, Batch]] = {}

    def may_keep(self, slot: Slot, batch: Batch) -> bool:
        """Whether a configuration may keep the limits, as far as its step without its states tells."""
        return self.excess(slot, batch, state_bytes=0) <= 1 + _ROUNDING

    def may_any_keep(self, slot: Slot) -> bool:
        """Whether some batch of a slot may keep the limits."""
        return self.least_excess(slot) <= 1 + _ROUNDING

    def least_excess(self, slot: Slot) -> float:
        """Return how many times over the limits the shortest step and the cheapest token of a slot are at least."""
        batches = self._space.batches(slot)
        extremes = self._extremes.get(id(batches))  # one object for many slots, which the space keeps
        if extremes is None:
            extremes = self._extremes[id(batches)] = (_shortest(batches), cheapest_of(batches))
        shortest, cheapest = extremes
        over_step = 0.0 if self._limits.max_step_time_s is None else self._of_step(slot, shortest, 0)
        return over_step if self.most_seconds_per_token == inf else max(over_step, self._of_token(slot, cheapest, 0))

    def excess(self, slot: Slot, batch: Batch, *, state_bytes: int | None = None) -> float:
        """Return how many times over the limit that is broken most a step is; states are as the precision says unless told."""
        over_step = 0.0 if self._limits.max_step_time_s is None else self._of_step(slot, batch, state_bytes)
        return over_step if self.most_seconds_per_token == inf else max(over_step, self._of_token(slot, batch, state_bytes))

    def _of_step(self, slot: Slot, batch: Batch, state_bytes: int | None) -> float:
        return self._seconds(slot, batch, state_bytes) / (self._limits.max_step_time_s or inf)

    def _of_token(self, slot: Slot, batch: Batch, state_bytes: int | None) -> float:
        workload = self._space.config(slot, batch)[0]
        assert isinstance(workload, TrainWorkload)  # noqa: S101 - of the question
        tokens = batch.micro_batch_size * batch.steps * slot.layout.data_parallel * workload.sequence_length
        return self._seconds(slot, batch, state_bytes) / tokens / self.most_seconds_per_token

    def _seconds(self, slot: Slot, batch: Batch, state_bytes: int | None) -> float:
        workload, layout = self._space.config(slot, batch)
        assert isinstance(workload, TrainWorkload)  # noqa: S101 - the clock is of training
        seconds = None if self._steps is None else self._steps.seconds(workload, layout, state_bytes=state_bytes)
        return inf if seconds is None else seconds

    def _most_seconds_per_token(self) -> float:
        """Return the time of one token of the whole job that the limits allow."""
        limits, workload = self._limits, self._space.question.workload
        most = inf if limits.min_tokens_per_second is None else 1 / limits.min_tokens_per_second
        if limits.max_hours is None or isinstance(workload, ServeWorkload) or workload.num_tokens is None:
            return most
        return min(most, limits.max_hours * SECONDS_PER_HOUR / workload.num_tokens)


def _shortest(batches: Sequence[Batch]) -> Batch:
    """Return the batch with the shortest step, and less: the smallest of everything, and nothing computed again."""
    return Batch(
        recomputed=max(batch.recomputed for batch in batches),
        micro_batch_size=min(batch.micro_batch_size for batch in batches),
        flying=1,
        steps=min(batch.steps for batch in batches),
    )
