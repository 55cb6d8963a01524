"""Times of configurations, to compare them and check limits.

They are per token of the whole job, and against the limits of a question.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from heapq import heapify, heappop, heappush
from itertools import count, dropwhile
from math import floor, inf, log10

from service.estimator.speed.throughput import find_untimed_reason, make_step_timer
from service.estimator.speed.training import StepTimer
from service.estimator.values.errors import EstimatorError
from service.estimator.values.layout import Layout
from service.estimator.values.result import Throughput
from service.estimator.values.workload import (
    ServeWorkload,
    TrainWorkload,
    Workload,
)
from service.planner.fit.evaluator import Evaluator
from service.planner.fit.time_lower_bound import seconds_per_token
from service.planner.search.bounds import compute_state_bytes
from service.planner.search.layout_options import Batch, LayoutOption, rank_complexity
from service.planner.search.layouts import SearchSpace
from service.planner.search.listings import Chain
from service.planner.search.search_space import TIME_LIMITS
from service.planner.search.time_bounds import TimeBounds, iter_ideal_workloads
from service.planner.search.time_limits import compute_excess, iter_broken_limits

_FIGURES = 6
TIME_TOLERANCE = 10 ** (1 - _FIGURES)
"""Relative difference below which times are equal.

No clock is as good, and rounding up in a ring decides nothing.
"""
_HeapEntry = tuple[float, tuple[int, ...], int, LayoutOption, Chain]


class StepTimes:
    """Times of the configurations of one question on one kind of GPU."""

    def __init__(self, evaluator: Evaluator, space: SearchSpace) -> None:
        """Set up the times; nothing is timed before it is asked."""
        self._evaluator, self._space = evaluator, space
        limits = space.question.limits
        self._limits = limits
        self.is_limited = any(getattr(limits, name) is not None for name in TIME_LIMITS)
        self._seconds: dict[tuple[LayoutOption, Batch], float] = {}
        self._lower_bounds: dict[LayoutOption, float] = {}
        self._single_gpu_time: float | None = None
        workload, device = space.question.workload, evaluator.device
        self._steps: StepTimer | None = None
        self._states = compute_state_bytes(evaluator.architecture, workload)
        if (
            isinstance(workload, TrainWorkload)
            and find_untimed_reason(evaluator.architecture, workload, device) is None
        ):
            self._steps = make_step_timer(evaluator.architecture, workload, device, evaluator.works)
        is_bounded = self.is_limited and isinstance(workload, TrainWorkload)
        floor = evaluator.time_floor
        self.bounds = TimeBounds(space, self._steps, floor=floor) if is_bounded else None

    def get_throughput(self, workload: Workload, layout: Layout) -> Throughput | None:
        """Return the throughput of a configuration, its states counted.

        None where the GPU's rates are unknown.
        """
        estimate = self._evaluator.evaluate(workload, layout)
        return self._evaluator.get_throughput(workload, layout, estimate)

    def get_counted_seconds(self, option: LayoutOption, batch: Batch) -> float:
        """Return the time per token of the whole job, its states counted.

        No less than without them. Where the rates are unknown, arithmetic alone is compared.
        """
        throughput = self.get_throughput(*self._space.build_config(option, batch))
        return (
            self.get_seconds_per_token(option, batch)
            if throughput is None
            else 1 / throughput.tokens_per_second
        )

    def get_seconds_per_token(self, option: LayoutOption, batch: Batch) -> float:
        """Return a lower bound of the job's time per token.

        A training step has the least states in it and the best that was learnt of any, a replica's
        time is its own. Where the rates are unknown, arithmetic alone is compared.
        """
        seconds = self._seconds.get((option, batch))
        if seconds is None:
            seconds = self._seconds[option, batch] = self._time_batch(option, batch)
        return seconds

    def iter_by_time(
        self,
        options: Iterable[LayoutOption],
        batches: Callable[[LayoutOption], Sequence[Batch]],
        *,
        is_open: Callable[[LayoutOption], bool],
        is_ruled_out: Callable[[LayoutOption, Batch], bool] = lambda _option, _batch: False,
    ) -> Iterator[tuple[float, LayoutOption, Batch]]:
        """Yield the batches of the open options by bounded time.

        Of equally fast ones the simplest comes first. An option is looked into when nothing that is
        known is faster than it can be at best. Batches that are ruled out are not timed.
        """
        order = count()
        heap: list[_HeapEntry] = [
            (self._get_lower_bound(option, fitting), (), next(order), option, ())
            for option in options
            if (fitting := batches(option))
        ]
        heapify(heap)
        while heap:
            _, _, _, option, chain = heappop(heap)
            if not is_open(option):
                continue
            if chain:
                yield self.get_seconds_per_token(option, chain[0]), option, chain[0]
                following: Sequence[Chain] = [chain[1:]] if len(chain) > 1 else []
            else:
                following = self._list_chains(batches(option))
            for chain_left in following:
                candidate = tuple(dropwhile(partial(is_ruled_out, option), chain_left))
                if not candidate:
                    continue
                seconds = self.get_seconds_per_token(option, candidate[0])
                rank = rank_complexity(option, candidate[0])
                heappush(heap, (round_time(seconds), rank, next(order), option, candidate))

    def _list_chains(self, batches: Sequence[Batch]) -> Sequence[Chain]:
        """Return batches of one recomputation and accumulation, largest first.

        Their lower bound of a pass's time is shared.
        """
        return (
            [(batch,) for batch in batches]
            if self._steps is None
            else self._space.listings.list_chains(batches)
        )

    def compute_min_seconds(self, num_gpus: int) -> float:
        """Return a lower bound of the time per token.

        It is that on so many GPUs: one GPU's arithmetic without steps, spread without loss.
        """
        if self._single_gpu_time is None:
            alone = Layout(gpus_per_node=self._space.base_layout.gpus_per_node)
            times = (
                self._compute_seconds_per_token(ideal, alone, 0) or 0.0
                for ideal in iter_ideal_workloads(self._space.question)
            )
            self._single_gpu_time = min(times, default=0.0)
        return self._single_gpu_time / num_gpus

    def get_slowest_in_time(self) -> float:
        """Return the longest time per token within the limits."""
        bounds = self.bounds
        return inf if bounds is None else bounds.max_seconds_per_token * (1 + TIME_TOLERANCE)

    def may_be_in_time_on(self, num_gpus: int) -> bool:
        """Return whether arithmetic alone leaves the limits to so many GPUs."""
        return self.bounds is None or (
            self.compute_min_seconds(num_gpus) <= self.get_slowest_in_time()
        )

    def is_in_time(self, workload: Workload, throughput: Throughput | None) -> bool:
        """Return whether a time keeps the limits.

        Where there are limits, an unknown time does not.
        """
        if not self.is_limited:
            return True
        return (
            throughput is not None
            and next(iter_broken_limits(self._limits, workload, throughput), None) is None
        )

    def iter_maybe_in_time(
        self,
        options: Iterable[LayoutOption],
        batches: Callable[[LayoutOption], Sequence[Batch]],
        *,
        is_open: Callable[[LayoutOption], bool],
    ) -> Iterator[tuple[LayoutOption, Batch]]:
        """Yield the training configurations that may keep the limits, the fastest first.

        Nothing slower per token is looked at.
        """
        bounds, slowest = self.bounds, self.get_slowest_in_time()
        assert bounds is not None  # noqa: S101 - asked where training is limited
        for seconds, option, batch in self.iter_by_time(options, batches, is_open=is_open):
            if seconds > slowest:
                return
            if bounds.can_be_in_time(option, batch):
                yield option, batch

    def can_be_in_time(self, option: LayoutOption, batch: Batch) -> bool:
        """Return whether a configuration may keep the time limits.

        Its step alone tells.
        """
        return self.bounds is None or self.bounds.can_be_in_time(option, batch)

    def iter_by_excess(
        self,
        options: Iterable[LayoutOption],
        batches: Callable[[LayoutOption], Sequence[Batch]],
        *,
        is_open: Callable[[LayoutOption], bool],
    ) -> Iterator[tuple[float, LayoutOption, Batch]]:
        """Yield configurations by how far they exceed the time limits."""
        if self.bounds is None:
            pairs = [(option, batch) for option in options for batch in batches(option)]
            for option, batch in sorted(pairs, key=lambda pair: self._compute_excess(*pair)):
                yield self.get_seconds_per_token(option, batch), option, batch
        elif self._limits.max_step_time_s is None:
            yield from self.iter_by_time(options, batches, is_open=is_open)
        else:
            for option, batch in self.bounds.iter_by_excess(options, batches, is_open=is_open):
                yield self.get_seconds_per_token(option, batch), option, batch

    def _compute_excess(self, option: LayoutOption, batch: Batch) -> float:
        """Return the worst ratio of a configuration's times to their limits."""
        workload, layout = self._space.build_config(option, batch)
        try:
            throughput = self.get_throughput(workload, layout)
        except EstimatorError:
            return inf
        return inf if throughput is None else compute_excess(self._limits, workload, throughput)

    def _get_lower_bound(self, option: LayoutOption, batches: Sequence[Batch]) -> float:
        bound = self._lower_bounds.get(option)
        if bound is None:
            bound = self._lower_bounds[option] = round_time(
                self._compute_lower_bound(option, batches)
            )
        return bound

    def _compute_lower_bound(self, option: LayoutOption, batches: Sequence[Batch]) -> float:
        """Return the least time per token of an option.

        It is that of the largest batch and the most steps, and as little computed again.
        """
        if isinstance(self._space.question.workload, ServeWorkload):
            return 0.0
        workload, layout = self._space.build_config(
            option, self._space.listings.get_cheapest(batches)
        )
        assert isinstance(workload, TrainWorkload)  # noqa: S101 - of the question
        states = self._states.compute_rank_states(option)
        return self._compute_seconds_per_token(workload, layout, states) or 0.0

    def _compute_seconds_per_token(
        self, workload: TrainWorkload, layout: Layout, state_bytes: int
    ) -> float | None:
        """Return the least seconds of one token of the whole job.

        A rank has so many bytes of states. None where the GPU's rates are unknown.
        """
        seconds = (
            None
            if self._steps is None
            else self._steps.estimate_step_s(workload, layout, state_bytes=state_bytes)
        )
        tokens = (
            workload.micro_batch_size * workload.gradient_accumulation_steps * layout.data_parallel
        )
        floor = self._evaluator.time_floor
        return None if seconds is None else floor * seconds / (tokens * workload.sequence_length)

    def _time_batch(self, option: LayoutOption, batch: Batch) -> float:
        workload, layout = self._space.build_config(option, batch)
        if isinstance(workload, TrainWorkload):
            states = self._states.compute_rank_states(option)
            seconds = self._compute_seconds_per_token(workload, layout, states)
            return (
                seconds_per_token(self._evaluator, workload, layout) / layout.num_gpus
                if seconds is None
                else seconds
            )
        try:
            throughput = self.get_throughput(workload, layout)
        except EstimatorError:
            return inf
        return 0.0 if throughput is None else 1 / throughput.tokens_per_second


def round_time(seconds: float) -> float:
    """Round a time to the figures that tell two of them apart."""
    return round(seconds, _FIGURES - 1 - floor(log10(seconds))) if 0 < seconds < inf else seconds
