"""Search over the configurations of one number of GPUs.

Bounds come first, numbers for what survives, full estimates for what is shown.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from service.estimator.values.errors import EstimatorError
from service.estimator.values.workload import ServeWorkload
from service.planner.fit.candidates import Candidate, Rejection, make_rejection
from service.planner.fit.evaluator import Evaluator, memoize_evaluator
from service.planner.search.candidate_builder import CandidateBuilder, iter_by_counted_time
from service.planner.search.failed_shards import FailuresAhead
from service.planner.search.layout_options import Batch, LayoutOption, get_kind
from service.planner.search.layouts import SearchSpace
from service.planner.search.memory_bounds import MemoryBounds
from service.planner.search.nearest_miss import NearestMiss
from service.planner.search.replays import (
    PossibleBatches,
    find_nearest_to_replay,
    make_at_best,
    may_be_replayed,
)
from service.planner.search.splits import Split
from service.planner.search.step_times import StepTimes
from service.planner.search.time_limits import explain_too_slow
from service.planner.search.tried_batches import TriedBatches

_PROBED_AFTER = 4
"""Numbers of GPUs that are too few before the largest is looked at."""


class Search:
    """Search of one question on one kind of GPU.

    Each configuration is estimated at most once.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        space: SearchSpace,
        *,
        probed_after: int = _PROBED_AFTER,
        counts_all: bool = True,
    ) -> None:
        """Set up the search; nothing is estimated before it is asked.

        ``probed_after`` is how many numbers are too few before the largest is looked at. Unless it
        ``counts_all`` that it has considered, what states alone rule out is not listed.
        """
        self.space, self.question, self._probed_after = space, space.question, probed_after
        serves = isinstance(self.question.workload, ServeWorkload)
        self.evaluator = evaluator = memoize_evaluator(evaluator) if serves else evaluator
        self.pruned: Counter[str] = Counter()
        self.memory_bounds = MemoryBounds(evaluator, space, self.pruned, counts_all=counts_all)
        self._batches = TriedBatches(evaluator, space, self.pruned)
        at_best = TriedBatches(make_at_best(evaluator), space, Counter())
        self.possible = PossibleBatches(self._batches, at_best)
        self._failures_ahead = FailuresAhead(space, self.possible)
        self.step_times = StepTimes(evaluator, space)
        self._candidates = CandidateBuilder(evaluator, space, self._batches)
        self._nearest_miss = NearestMiss(space, self.memory_bounds, self._batches.try_smallest)
        self._num_insufficient = 0
        self._may_be_in_time: dict[LayoutOption, bool] = {}

    @property
    def num_considered(self) -> int:
        """Return the number of configurations looked at."""
        return self.memory_bounds.num_considered

    @property
    def num_estimated(self) -> int:
        """Return the number of configurations estimated."""
        return self._batches.num_estimated

    @property
    def refusal(self) -> EstimatorError | None:
        """Return the first refusal of a configuration."""
        return self._batches.refusal

    def suffices(self, num_gpus: int) -> bool:
        """Return whether some configuration of so many GPUs is enough.

        Once several numbers are not, the largest is looked at: what has no room there has none on
        fewer.
        """
        if self._num_insufficient == self._probed_after:
            self._probe_largest()
        may_be_in_time = self.step_times.may_be_in_time_on(num_gpus)
        if not may_be_in_time:
            self.pruned["arithmetic_alone"] += self.space.count_divisions(num_gpus)
        suffices = may_be_in_time and self._suffices(num_gpus)
        self._num_insufficient += not suffices and bool(self.memory_bounds.list_feasible(num_gpus))
        return suffices

    def has_room(self, split: Split, num_gpus: int) -> bool:
        """Return whether a split has room by its numbers.

        All of its layouts are tried, though one is enough: what has none rules out others.
        """
        options = self.space.list_split_options(split, num_gpus)
        feasible = self._filter_by_memory(self.memory_bounds.filter_by_states(options))
        tried = [self.possible.try_smallest(option) for option in feasible]
        return any(tried)

    def _probe_largest(self) -> None:
        options = self._filter_by_memory(self.memory_bounds.list_feasible(self.space.counts[-1]))
        # Where anything fits there is an answer, and its number is near: the rest stays open.
        any(map(self.possible.try_smallest, options))

    def _filter_by_memory(self, options: Sequence[LayoutOption]) -> list[LayoutOption]:
        return [option for option in options if self.memory_bounds.list_fitting_batches(option)]

    def _suffices(self, num_gpus: int) -> bool:
        options = self._filter_by_time(self.memory_bounds.list_feasible(num_gpus))
        if self.step_times.bounds is not None:
            fast = self.step_times.iter_maybe_in_time(
                options, self.memory_bounds.list_fitting_batches, is_open=self._batches.is_open
            )
            if any(
                self._batches.fits(option, batch) and self._is_in_time(option, batch)
                for option, batch in fast
            ):
                return True
        elif any(
            self._has_fitting_batch(option)
            for option in options
            if self.memory_bounds.list_fitting_batches(option)
        ):
            return True
        return next(self._iter_replayed_fits(self._filter_by_memory(options)), None) is not None

    def _filter_by_time(self, options: Sequence[LayoutOption]) -> Sequence[LayoutOption]:
        """Return the options that may keep the time limits.

        Their steps alone tell.
        """
        bounds = self.step_times.bounds
        if bounds is None:
            return options
        for option in options:
            if option not in self._may_be_in_time:
                self._may_be_in_time[option] = bounds.can_any_be_in_time(option)
                self.pruned["time_alone"] += (
                    0 if self._may_be_in_time[option] else len(self.space.list_batches(option))
                )
        return [option for option in options if self._may_be_in_time[option]]

    def iter_best(
        self,
        num_gpus: int,
        *,
        faster_than: float | None = None,
        among: Iterable[LayoutOption] | None = None,
        more_follow: bool = False,
    ) -> Iterator[Candidate]:
        """Yield the sufficient candidates on so many GPUs, fastest first.

        They are as they are shown; each strategy and recomputation comes once. Where more GPUs
        follow, a batch without room is looked at there at once.
        """
        seen: set[object] = set()
        has_room = self._failures_ahead if more_follow else self.possible
        options = self._filter_by_time(
            self.memory_bounds.list_feasible(num_gpus)
            if among is None
            else self.memory_bounds.filter_by_states(among),
        )
        timed = self.step_times.iter_by_time(
            options,
            self.memory_bounds.list_fitting_batches,
            is_open=self.possible.is_open,
            is_ruled_out=self.possible.is_ruled_out,
        )

        def count_seconds(option: LayoutOption, batch: Batch) -> float | None:
            if (
                get_kind(option, batch) in seen
                or not self.step_times.can_be_in_time(option, batch)
                or not has_room.fits(option, batch)
            ):
                return None
            return self.step_times.get_counted_seconds(option, batch)

        slowest = self.step_times.get_slowest_in_time()
        limit = slowest if faster_than is None else min(faster_than, slowest)
        for seconds, option, batch in iter_by_counted_time(timed, count_seconds, faster_than=limit):
            kind = get_kind(option, batch)
            candidate = None if kind in seen else self._candidates.answer(option, batch, seconds)
            if (
                candidate is not None
                and not candidate.missing_bytes
                and self.step_times.is_in_time(candidate.workload, candidate.throughput)
            ):
                seen.add(kind)
                yield candidate

    def explain_rejection(self, num_gpus: int, *, nearest_of_all: bool = False) -> Rejection | None:
        """Explain why so many GPUs are too few.

        None when no configuration of them can run.
        """
        late = self._explain_too_slow(num_gpus) if self.step_times.is_limited else None
        if late is not None:
            return late
        nearest = self._nearest_miss.find_nearest(num_gpus, of_all=nearest_of_all)
        if nearest is None:
            return None
        option, batch = nearest
        candidate = self._candidates.explain(option, batch)
        if not candidate.missing_bytes:  # its numbers suffice, so that a replay reserves more
            candidate = self._candidates.answer(option, batch, 0.0) or candidate
        return make_rejection(candidate, self.evaluator.device.usable_bytes)

    def _explain_too_slow(self, num_gpus: int) -> Rejection | None:
        """Explain that what has room on so many GPUs takes too long.

        None where nothing has room, or what has is in time.

        It is judged by numbers alone, which a replay of each would cost a hundred times over,
        unless only a replay has room.
        """
        bounded, usable = (
            self.memory_bounds.list_feasible(num_gpus),
            self.evaluator.device.usable_bytes,
        )
        nearest = self.step_times.iter_by_excess(
            bounded, self.memory_bounds.list_fitting_batches, is_open=self._batches.is_open
        )
        fitting = (
            self._candidates.explain(option, batch)
            for _, option, batch in nearest
            if self._batches.is_reportable(option, batch)
        )
        candidate = next(fitting, None) or next(
            self._iter_replayed_fits(bounded, in_time=False), None
        )
        slow = (
            None
            if candidate is None
            else explain_too_slow(self.question.limits, (candidate.workload, candidate.throughput))
        )
        return (
            None
            if candidate is None or slow is None
            else make_rejection(candidate, usable, too_slow=slow)
        )

    def _has_fitting_batch(self, option: LayoutOption) -> bool:
        """Return whether some batch of an option fits.

        A question with limits of time asks for one that is in time as well.
        """
        batches = self.space.list_batches(option)
        if self.step_times.is_limited:
            return any(
                self._is_in_time(option, batch) and self._batches.fits(option, batch)
                for batch in batches
            )
        if self._batches.is_tried(option) or not self._batches.is_first_smallest(batches):
            return any(self._batches.fits(option, batch) for batch in batches)
        fits = self._batches.fits(option, batches[0])
        self.pruned["monotone"] += 0 if fits else len(batches) - 1
        return fits

    def _is_in_time(self, option: LayoutOption, batch: Batch) -> bool:
        workload, layout = self.space.build_config(option, batch)
        return self.step_times.is_in_time(
            workload, self.step_times.get_throughput(workload, layout)
        )

    def _iter_replayed_fits(
        self, options: Sequence[LayoutOption], *, in_time: bool = True
    ) -> Iterator[Candidate]:
        """Yield candidates that suffice only after a replay.

        Of the configurations that come nearest, the allocator is replayed.
        """
        first = ((option, self.space.list_batches(option)[0]) for option in options)
        tried = (
            (option, self._batches.try_smallest(option))
            for option, batch in first
            if may_be_replayed(option)
            and not self.possible.has_failed_on_more_shards(option, batch)
            and (not in_time or self.step_times.can_be_in_time(option, batch))
        )
        near = find_nearest_to_replay(tried, self.evaluator.device.usable_bytes)
        for option in near:
            batch = self.space.list_batches(option)[0]
            if self._batches.is_too_large_at_best(option, batch):
                continue
            candidate = self._candidates.answer(
                option, batch, self.step_times.get_seconds_per_token(option, batch)
            )
            if candidate is None or candidate.missing_bytes:
                continue
            if not in_time or self.step_times.is_in_time(candidate.workload, candidate.throughput):
                yield candidate
