"""Time bounds of training configurations, before memory is estimated.

They are steps if states were read and written for nothing.

A rank's states are known with its memory alone, and no part of a step takes less time for having
more of them: a search that asks here before memory is estimated loses nothing that is in time.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from heapq import heapify, heappop, heappush
from itertools import count
from math import inf

from service.estimator.speed.training import SECONDS_PER_HOUR, StepTimer
from service.estimator.values.workload import (
    Checkpointing,
    Offload,
    ServeWorkload,
    TrainWorkload,
)
from service.planner.search.layout_options import Batch, LayoutOption, build_cheapest_batch
from service.planner.search.layouts import SearchSpace
from service.planner.search.search_space import MAX_MICRO_BATCH_SIZE, Question
from service.planner.search.strategies import list_strategies

_MANY_MICRO_BATCHES = 2**40
"""Micro batches that make what happens once a step count for nothing."""
_ROUNDING = 1e-9
"""Relative tolerance of the limits.

Hours of a run and tokens per second are multiplied in another order where they are reported.
"""


def iter_ideal_workloads(question: Question) -> Iterator[TrainWorkload]:
    """Yield a question's workload without loss, in each framework.

    It has the largest micro batch, steps without end, and nothing is computed again.
    """
    workload = question.workload
    if isinstance(workload, ServeWorkload):
        return
    named = (strategy.framework for strategy in list_strategies(question))
    for framework in {framework for framework in named if framework is not None}:
        yield replace(
            workload,
            framework=framework,
            micro_batch_size=max(MAX_MICRO_BATCH_SIZE, workload.micro_batch_size),
            gradient_accumulation_steps=_MANY_MICRO_BATCHES,
            activation_checkpointing=Checkpointing.NONE,
            selective_every=None,
            offload=Offload(),
        )


class TimeBounds:
    """Step times of one question relative to its limits.

    They are those on one kind of GPU.
    """

    def __init__(self, space: SearchSpace, steps: StepTimer | None, *, floor: float = 1.0) -> None:
        """Set up the bounds; nothing is timed before it is asked.

        Without a clock of steps nothing is in time. ``floor`` is the least that anything learnt
        makes of a step's time.
        """
        self._space, self._steps, self._limits = space, steps, space.question.limits
        self._floor = floor
        self.max_seconds_per_token = self._compute_max_seconds_per_token()
        self._extremes: dict[int, tuple[Batch, Batch]] = {}

    def can_be_in_time(self, option: LayoutOption, batch: Batch) -> bool:
        """Return whether a configuration may keep the limits.

        Its step without its states tells.
        """
        return self.get_excess(option, batch, state_bytes=0) <= 1 + _ROUNDING

    def can_any_be_in_time(self, option: LayoutOption) -> bool:
        """Return whether some batch of an option may keep the limits."""
        return self.get_min_excess(option) <= 1 + _ROUNDING

    def get_min_excess(self, option: LayoutOption) -> float:
        """Return a lower bound of an option's ratio to the limits.

        It counts the shortest step and the cheapest token.
        """
        batches = self._space.list_batches(option)
        extremes = self._extremes.get(
            id(batches)
        )  # one object for many slots, which the space keeps
        if extremes is None:
            extremes = self._extremes[id(batches)] = (
                _build_shortest_batch(batches),
                build_cheapest_batch(batches),
            )
        shortest, cheapest = extremes
        over_step = (
            0.0
            if self._limits.max_step_time_s is None
            else self._compute_step_excess(option, shortest, 0)
        )
        return (
            over_step
            if self.max_seconds_per_token == inf
            else max(over_step, self._compute_token_excess(option, cheapest, 0))
        )

    def get_excess(
        self, option: LayoutOption, batch: Batch, *, state_bytes: int | None = None
    ) -> float:
        """Return the worst ratio of a step to the limits.

        States are as the precision says unless given.
        """
        over_step = (
            0.0
            if self._limits.max_step_time_s is None
            else self._compute_step_excess(option, batch, state_bytes)
        )
        return (
            over_step
            if self.max_seconds_per_token == inf
            else max(over_step, self._compute_token_excess(option, batch, state_bytes))
        )

    def iter_by_excess(
        self,
        options: Iterable[LayoutOption],
        batches: Callable[[LayoutOption], Sequence[Batch]],
        *,
        is_open: Callable[[LayoutOption], bool],
    ) -> Iterator[tuple[LayoutOption, Batch]]:
        """Yield the smallest batches of the open options, nearest first.

        An option is looked into when none that is known is nearer.
        """
        order = count()
        heap: list[tuple[float, int, LayoutOption, Batch | None]] = [
            (self.get_min_excess(option), next(order), option, None)
            for option in options
            if batches(option)
        ]
        heapify(heap)
        while heap:
            _, _, option, batch = heappop(heap)
            if batch is not None:
                yield option, batch
            elif is_open(option):
                fitting = batches(option)
                min_size = min(candidate.micro_batch_size for candidate in fitting)
                for candidate in (
                    candidate for candidate in fitting if candidate.micro_batch_size == min_size
                ):
                    heappush(
                        heap, (self.get_excess(option, candidate), next(order), option, candidate)
                    )

    def _compute_step_excess(
        self, option: LayoutOption, batch: Batch, state_bytes: int | None
    ) -> float:
        return self._get_seconds(option, batch, state_bytes) / (self._limits.max_step_time_s or inf)

    def _compute_token_excess(
        self, option: LayoutOption, batch: Batch, state_bytes: int | None
    ) -> float:
        workload = self._space.build_config(option, batch)[0]
        assert isinstance(workload, TrainWorkload)  # noqa: S101 - of the question
        tokens = (
            batch.micro_batch_size
            * batch.gradient_accumulation_steps
            * option.layout.data_parallel
            * workload.sequence_length
        )
        return self._get_seconds(option, batch, state_bytes) / tokens / self.max_seconds_per_token

    def _get_seconds(self, option: LayoutOption, batch: Batch, state_bytes: int | None) -> float:
        workload, layout = self._space.build_config(option, batch)
        assert isinstance(workload, TrainWorkload)  # noqa: S101 - the clock is of training
        seconds = (
            None
            if self._steps is None
            else self._steps.estimate_step_s(workload, layout, state_bytes=state_bytes)
        )
        return inf if seconds is None else self._floor * seconds

    def _compute_max_seconds_per_token(self) -> float:
        """Return the time per token that the limits allow.

        It is that of the whole job.
        """
        limits, workload = self._limits, self._space.question.workload
        max_seconds = (
            inf if limits.min_tokens_per_second is None else 1 / limits.min_tokens_per_second
        )
        if (
            limits.max_hours is None
            or isinstance(workload, ServeWorkload)
            or workload.num_tokens is None
        ):
            return max_seconds
        return min(max_seconds, limits.max_hours * SECONDS_PER_HOUR / workload.num_tokens)


def _build_shortest_batch(batches: Sequence[Batch]) -> Batch:
    """Return a batch that bounds the step time from below.

    It has the smallest of everything, and nothing is computed again.
    """
    return Batch(
        checkpointing_index=max(batch.checkpointing_index for batch in batches),
        micro_batch_size=min(batch.micro_batch_size for batch in batches),
        micro_batches_in_flight=1,
        gradient_accumulation_steps=min(batch.gradient_accumulation_steps for batch in batches),
    )
