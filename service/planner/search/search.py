"""Search over the configurations of one number of GPUs.

Bounds come first, numbers for what survives, full estimates for what is shown.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from service.estimator.values.errors import EstimatorError
from service.estimator.values.result import Estimate
from service.estimator.values.workload import ServeWorkload, TrainWorkload
from service.planner.fit.candidates import Candidate, Rejection, make_rejection
from service.planner.fit.evaluator import Evaluator, memoize_evaluator
from service.planner.fit.remedy_steps import Config
from service.planner.fit.verdict import judge, missing_bytes
from service.planner.search.layout_options import Batch, LayoutOption
from service.planner.search.layouts import SearchSpace
from service.planner.search.memory_bounds import MemoryBounds
from service.planner.search.nearest_miss import NearestMiss
from service.planner.search.replays import (
    ReplayCandidates,
    TriedBatch,
    find_nearest_to_replay,
    get_length_group,
    get_shard_group,
)
from service.planner.search.step_times import StepTimes, explain_too_slow


class Search:
    """Search of one question on one kind of GPU.

    Each configuration is estimated at most once.
    """

    def __init__(self, evaluator: Evaluator, space: SearchSpace) -> None:
        """Set up the search; nothing is estimated before it is asked."""
        self.space, self.question = space, space.question
        serves = isinstance(self.question.workload, ServeWorkload)
        self.evaluator = evaluator = memoize_evaluator(evaluator) if serves else evaluator
        self.num_estimated = 0
        self.pruned: Counter[str] = Counter()
        self.memory_bounds = MemoryBounds(evaluator, space, self.pruned)
        self.refusal: EstimatorError | None = None
        self.replay_candidates = ReplayCandidates(
            evaluator.device.usable_bytes, is_confident=self.question.limits.confidence is not None
        )
        self.step_times = StepTimes(evaluator, space)
        self._nearest_miss = NearestMiss(space, self.memory_bounds, self._try_smallest)
        self._tried: dict[LayoutOption, list[TriedBatch]] = {}
        self._failed_context_parallel: dict[object, int] = {}
        self._is_confident = self.question.limits.confidence is not None
        self._first_is_smallest: dict[int, bool] = {}
        self._too_large_shards: dict[object, int] = {}
        self._may_be_in_time: dict[LayoutOption, bool] = {}

    @property
    def num_considered(self) -> int:
        """Return the number of configurations looked at."""
        return self.memory_bounds.num_considered

    def suffices(self, num_gpus: int) -> bool:
        """Return whether some configuration of so many GPUs is enough."""
        options = self._filter_by_time(self.memory_bounds.list_feasible(num_gpus))
        if self.step_times.bounds is not None:
            fast = self.step_times.iter_in_time(
                options, self.memory_bounds.list_fitting_batches, is_open=self._is_open
            )
            if any(self._fits(option, batch) for option, batch in fast):
                return True
        elif any(
            self._has_fitting_batch(option)
            for option in options
            if self.memory_bounds.list_fitting_batches(option)
        ):
            return True
        return (
            next(
                self._iter_replayed_fits(
                    [
                        option
                        for option in options
                        if self.memory_bounds.list_fitting_batches(option)
                    ],
                ),
                None,
            )
            is not None
        )

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
    ) -> Iterator[Candidate]:
        """Yield the sufficient candidates on so many GPUs, fastest first.

        They are as they are shown; each strategy and recomputation comes once.
        """
        seen: set[object] = set()
        options = self._filter_by_time(
            self.memory_bounds.list_feasible(num_gpus)
            if among is None
            else self.memory_bounds.filter_by_states(among),
        )
        for seconds, option, batch in self.step_times.iter_by_time(
            options, self.memory_bounds.list_fitting_batches, is_open=self._is_open
        ):
            if faster_than is not None and seconds >= faster_than:
                return
            kind = (
                option.strategy.name,
                option.layout.zero_stage,
                option.offload,
                option.quantization,
                batch.checkpointing_index,
            )
            if kind in seen or not self.step_times.can_be_in_time(option, batch):
                continue
            if not self._fits(option, batch) and not self.replay_candidates.accept(
                option, self._find_tried(option, batch)
            ):
                continue
            candidate = self.answer_candidate(option, batch, seconds)
            if (
                candidate is not None
                and not candidate.missing_bytes
                and self.step_times.is_in_time(candidate.workload, candidate.throughput)
            ):
                seen.add(kind)
                yield candidate
        if not seen:
            yield from self._iter_replayed_fits(options)

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
        candidate = self._explain_candidate(option, batch)
        if not candidate.missing_bytes:  # its numbers suffice, so that a replay reserves more
            candidate = self.answer_candidate(option, batch, 0.0) or candidate
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
            bounded, self.memory_bounds.list_fitting_batches, is_open=self._is_open
        )
        fitting = (
            self._explain_candidate(option, batch)
            for _, option, batch in nearest
            if self._is_reportable(option, batch)
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

    def _is_reportable(self, option: LayoutOption, batch: Batch) -> bool:
        """Return whether a batch fits.

        One that does not rules out the same on fewer shards, and the least of its option all
        others.
        """
        group, shards = get_shard_group(option, batch), option.layout.shards
        if shards <= self._too_large_shards.get(group, 0):
            return False
        fits = self._fits(option, batch)
        if not fits:
            self._too_large_shards[group] = shards
            if self._is_first_smallest(self.space.list_batches(option)):
                self._fits(option, self.space.list_batches(option)[0])
        return fits

    def answer_candidate(
        self, option: LayoutOption, batch: Batch, seconds: float
    ) -> Candidate | None:
        """Return a fully answered candidate, or None if refused.

        It has all that is known of it.
        """
        workload, layout = self.space.build_config(option, batch)
        try:
            estimate = self.evaluator.answer(workload, layout)
        except EstimatorError as refusal:
            self.refusal = self.refusal or refusal
            return None
        return self._time_candidate((workload, layout), estimate, seconds)

    def _explain_candidate(self, option: LayoutOption, batch: Batch) -> Candidate:
        """Return a candidate with its memory components, without a replay."""
        workload, layout = self.space.build_config(option, batch)
        return self._time_candidate(
            (workload, layout), self.evaluator.evaluate(workload, layout), 0.0
        )

    def _time_candidate(self, config: Config, estimate: Estimate, seconds: float) -> Candidate:
        throughput = self.evaluator.get_throughput(*config, estimate)
        if throughput is not None and isinstance(config[0], TrainWorkload):
            seconds = 1 / throughput.tokens_per_second
        return replace(self._make_candidate(config, estimate, seconds), throughput=throughput)

    def _make_candidate(self, config: Config, estimate: Estimate, seconds: float) -> Candidate:
        return Candidate(
            num_gpus=estimate.num_gpus,
            workload=config[0],
            layout=config[1],
            estimate=estimate,
            judgement=judge(estimate, self.evaluator.device),
            missing_bytes=self._compute_missing_bytes(estimate),
            seconds_per_token=seconds,
        )

    def _has_fitting_batch(self, option: LayoutOption) -> bool:
        """Return whether some batch of an option fits.

        A question with limits of time asks for one that is in time as well.
        """
        batches = self.space.list_batches(option)
        if self.step_times.is_limited:
            return any(
                self._is_in_time(option, batch) and self._fits(option, batch) for batch in batches
            )
        if option in self._tried or not self._is_first_smallest(batches):
            return any(self._fits(option, batch) for batch in batches)
        fits = self._fits(option, batches[0])
        self.pruned["monotone"] += 0 if fits else len(batches) - 1
        return fits

    def _is_first_smallest(self, batches: tuple[Batch, ...]) -> bool:
        """Return whether all batches dominate the first one.

        They need at least its memory.
        """
        is_smallest = self._first_is_smallest.get(
            id(batches)
        )  # one object for many slots, which the space keeps
        if is_smallest is None:
            is_smallest = self._first_is_smallest[id(batches)] = all(
                batch.dominates(batches[0]) for batch in batches
            )
        return is_smallest

    def _is_open(self, option: LayoutOption) -> bool:
        """Return whether an option is not ruled out yet."""
        smallest = self.space.list_batches(option)[0]
        return not any(
            tried.missing_bytes and tried.batch == smallest for tried in self._tried.get(option, ())
        )

    def _is_in_time(self, option: LayoutOption, batch: Batch) -> bool:
        workload, layout = self.space.build_config(option, batch)
        return self.step_times.is_in_time(
            workload, self.step_times.get_throughput(workload, layout)
        )

    def _try_smallest(self, option: LayoutOption) -> TriedBatch:
        """Return the result of the batch that needs least."""
        batch = self.space.list_batches(option)[0]
        return self._find_tried(option, batch) or self._try_batch(option, batch)

    def _find_tried(self, option: LayoutOption, batch: Batch) -> TriedBatch | None:
        for tried in self._tried.get(option, ()):
            if tried.batch == batch:
                return tried
        return None

    def _fits(self, option: LayoutOption, batch: Batch) -> bool:
        """Return whether a batch of an option fits.

        A batch that needs at least the memory of one that does not fit is never estimated.
        """
        for tried in self._tried.get(option, ()):
            if tried.batch == batch:
                return not tried.missing_bytes
            if tried.missing_bytes and batch.dominates(tried.batch):
                self.pruned["monotone"] += 1
                return False
        if self._has_failed_shorter(option, batch):
            return False
        single = batch.with_micro_batch_size(1)
        grows = batch.micro_batch_size > 1 and single in self.space.list_batches(option)
        if grows and (not self._fits(option, single) or self._exceeds_by_convexity(option, batch)):
            return False
        return not self._try_batch(option, batch).missing_bytes

    def _has_failed_shorter(self, option: LayoutOption, batch: Batch) -> bool:
        """Return whether the same batch failed with shorter sequences.

        As many shards have the same states and, with less context parallelism, more tokens.
        """
        failed = (
            self._failed_context_parallel.get(get_length_group(option, batch), 0)
            >= option.layout.context_parallel
        )
        if failed:
            self._tried.setdefault(option, []).append(TriedBatch(batch, None, 1))
            self.pruned["longer_sequences"] += 1
        return failed

    def _exceeds_by_convexity(self, option: LayoutOption, batch: Batch) -> bool:
        """Return whether a batch is too large by extrapolation.

        It follows from what one and two sequences need: a highest of sums that grow evenly is
        convex.
        """
        double = batch.with_micro_batch_size(2)
        if (
            batch.micro_batch_size <= double.micro_batch_size
            or double not in self.space.list_batches(option)
        ):
            return False
        if not self._fits(option, double):
            return True
        single_bytes, double_bytes = (
            self._get_needed_bytes(option, batch.with_micro_batch_size(size)) for size in (1, 2)
        )
        too_large = (
            single_bytes + (double_bytes - single_bytes) * (batch.micro_batch_size - 1)
            > self.evaluator.device.usable_bytes
        )
        self.pruned["convex"] += too_large
        return too_large

    def _get_needed_bytes(self, option: LayoutOption, batch: Batch) -> int:
        tried = self._find_tried(option, batch)
        assert tried is not None  # noqa: S101 - what fits was tried,
        assert tried.estimate is not None  # noqa: S101 - and estimated
        return (
            tried.estimate.device_interval.high
            if self._is_confident
            else tried.estimate.device_bytes
        )

    def _try_batch(self, option: LayoutOption, batch: Batch) -> TriedBatch:
        workload, layout = self.space.build_config(option, batch)
        self.num_estimated += 1
        try:
            estimate = self.evaluator.estimate_numbers(workload, layout)
            tried = TriedBatch(batch, estimate, self._compute_missing_bytes(estimate))
            if tried.missing_bytes:
                group = get_length_group(option, batch)
                self._failed_context_parallel[group] = max(
                    self._failed_context_parallel.get(group, 0), option.layout.context_parallel
                )
        except EstimatorError as refusal:
            self.refusal = self.refusal or refusal
            self.pruned["cannot_run"] += 1
            tried = TriedBatch(batch, None, 1)
        self._tried.setdefault(option, []).append(tried)
        return tried

    def _iter_replayed_fits(
        self, options: Sequence[LayoutOption], *, in_time: bool = True
    ) -> Iterator[Candidate]:
        """Yield candidates that suffice only after a replay.

        Of the configurations that come nearest, the allocator is replayed.
        """
        first = ((option, self.space.list_batches(option)[0]) for option in options)
        tried = (
            (option, self._try_smallest(option))
            for option, batch in first
            if not in_time or self.step_times.can_be_in_time(option, batch)
        )
        near = find_nearest_to_replay(tried, self.evaluator.device.usable_bytes)
        for option in near:
            batch = self.space.list_batches(option)[0]
            if self._is_too_large_at_best(option, batch):
                continue
            candidate = self.answer_candidate(
                option, batch, self.step_times.get_seconds_per_token(option, batch)
            )
            if candidate is None or candidate.missing_bytes:
                continue
            if not in_time or self.step_times.is_in_time(candidate.workload, candidate.throughput):
                yield candidate

    def _is_too_large_at_best(self, option: LayoutOption, batch: Batch) -> bool:
        """Return whether a configuration is too large without any hole.

        No replay of it needs to be tried then.
        """
        lower_bound = self.evaluator.lower_bound(*self.space.build_config(option, batch))
        is_too_large = lower_bound is not None and self._compute_missing_bytes(lower_bound) > 0
        self.pruned["replay_at_best"] += is_too_large
        return is_too_large

    def _compute_missing_bytes(self, estimate: Estimate) -> int:
        return missing_bytes(estimate, self.evaluator.device, confident=self._is_confident)
