"""Batches that a search has estimated, and what they rule out."""

from collections import Counter
from dataclasses import dataclass

from service.estimator.values.errors import EstimatorError
from service.estimator.values.result import Estimate
from service.planner.fit.evaluator import Evaluator
from service.planner.fit.known_refusals import KnownRefusals
from service.planner.fit.verdict import missing_bytes
from service.planner.search.failed_shards import FailedShards
from service.planner.search.layout_options import (
    Batch,
    LayoutOption,
    get_length_group,
    get_shard_group,
)
from service.planner.search.layouts import SearchSpace


@dataclass(frozen=True, slots=True)
class TriedBatch:
    """Result of one batch of a layout.

    There is no estimate where it was refused.
    """

    batch: Batch
    estimate: Estimate | None
    missing_bytes: int


class TriedBatches:
    """Estimated batches of one question on one kind of GPU.

    Each is estimated at most once.
    """

    def __init__(self, evaluator: Evaluator, space: SearchSpace, pruned: Counter[str]) -> None:
        """Start without estimates; what is ruled out is counted in ``pruned``."""
        self._evaluator, self._space, self._pruned = evaluator, space, pruned
        self.num_estimated = 0
        self.refusal: EstimatorError | None = None
        self._tried: dict[LayoutOption, list[TriedBatch]] = {}
        self._failed_shorter: dict[object, tuple[int, int]] = {}
        """The most context-parallel ranks that failed, and what they lacked on the GPU itself."""
        self._is_confident = space.question.limits.confidence is not None
        self._first_is_smallest: dict[int, bool] = {}
        self._too_large_shards: dict[object, int] = {}
        self._failed_shards = FailedShards(space.model, space.question.workload)
        self._refusals = KnownRefusals(space.question.workload)

    def is_tried(self, option: LayoutOption) -> bool:
        """Return whether some batch of an option was tried."""
        return option in self._tried

    def record_refusal(self, refusal: EstimatorError) -> None:
        """Keep the first refusal of a configuration."""
        self.refusal = self.refusal or refusal

    def is_open(self, option: LayoutOption) -> bool:
        """Return whether an option is not ruled out yet.

        It is ruled out once its least batch has failed, or the same one on more shards, and where
        a rule forbids all of its batches that another option was refused by.
        """
        smallest, batches = self.get_smallest(option), self._space.list_batches(option)
        if self._refusals.covers_batches(
            option.strategy.name, self._space.build_config(option, smallest)
        ):
            return False
        if not self.is_first_smallest(batches):
            return True
        return not self.has_failed_on_more_shards(option, smallest) and not any(
            tried.missing_bytes and tried.batch == smallest for tried in self._tried.get(option, ())
        )

    def fits(self, option: LayoutOption, batch: Batch) -> bool:
        """Return whether a batch of an option fits.

        A batch that needs at least the memory of one that does not fit is never estimated.
        """
        for tried in self._tried.get(option, ()):
            if tried.batch == batch:
                return not tried.missing_bytes
            if tried.missing_bytes and batch.dominates(tried.batch):
                self._pruned["monotone"] += 1
                self._failed_shards.record_larger(option, batch, than=tried.batch)
                return False
        if self._has_failed_elsewhere(option, batch):
            return False
        single = batch.with_micro_batch_size(1)
        grows = batch.micro_batch_size > 1 and single in self._space.list_batches(option)
        if grows and (
            self._exceeds_smaller(option, batch, than=single)
            or self._exceeds_by_convexity(option, batch)
        ):
            return False
        if not self._try_batch(option, batch).missing_bytes:
            return True
        batches = self._space.list_batches(option)
        if batch.micro_batch_size == 1 and self.is_first_smallest(batches):
            # One sequence is too much: where the least fails too, nothing of the option is left.
            self.fits(option, batches[0])
        return False

    def has_failed_on_more_shards(self, option: LayoutOption, batch: Batch) -> bool:
        """Return whether the same batch has failed in more shards."""
        return self._failed_shards.covers(option, batch)

    def stays_too_large(self, option: LayoutOption) -> bool:
        """Return whether no batch of an option has room on fewer ranks.

        Several GPUs are meant. Its least batch has failed in as many shards, or a rule forbids it
        that reads no ranks.
        """
        smallest = self.get_smallest(option)
        if not self.is_first_smallest(self._space.list_batches(option)):
            return False
        config = self._space.build_config(option, smallest)
        if self._refusals.covers_ranks(option.strategy.name, config):
            return True
        return self._failed_shards.covers_fewer(option, smallest)

    def is_reportable(self, option: LayoutOption, batch: Batch) -> bool:
        """Return whether a batch fits.

        One that does not rules out the same on fewer shards, and the least of its option all
        others.
        """
        group, shards = get_shard_group(option, batch), option.layout.shards
        if shards <= self._too_large_shards.get(group, 0):
            return False
        fits = self.fits(option, batch)
        if not fits:
            self._too_large_shards[group] = shards
            if self.is_first_smallest(self._space.list_batches(option)):
                self.fits(option, self._space.list_batches(option)[0])
        return fits

    def is_first_smallest(self, batches: tuple[Batch, ...]) -> bool:
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

    def get_smallest(self, option: LayoutOption) -> Batch:
        """Return the batch of an option that needs least."""
        return self._space.list_batches(option)[0]

    def try_smallest(self, option: LayoutOption) -> TriedBatch:
        """Return the result of the batch that needs least."""
        batch = self.get_smallest(option)
        return self.find_tried(option, batch) or self._try_batch(option, batch)

    def find_tried(self, option: LayoutOption, batch: Batch) -> TriedBatch | None:
        """Return the result of a batch, None where it was not tried."""
        for tried in self._tried.get(option, ()):
            if tried.batch == batch:
                return tried
        return None

    def is_too_large_at_best(self, option: LayoutOption, batch: Batch) -> bool:
        """Return whether a configuration is too large without any hole.

        No replay of it needs to be tried then.
        """
        lower_bound = self._evaluator.lower_bound(*self._space.build_config(option, batch))
        is_too_large = lower_bound is not None and self.compute_missing_bytes(lower_bound) > 0
        self._pruned["replay_at_best"] += is_too_large
        return is_too_large

    def compute_missing_bytes(self, estimate: Estimate) -> int:
        """Return how many bytes an estimate lacks, confidently where that is asked."""
        return missing_bytes(estimate, self._evaluator.device, confident=self._is_confident)

    def _has_failed_elsewhere(self, option: LayoutOption, batch: Batch) -> bool:
        """Return whether a batch failed on more shards, or with shorter sequences."""
        if self.has_failed_on_more_shards(option, batch):
            self._pruned["fewer_shards"] += 1
            return True
        return self._has_failed_shorter(option, batch)

    def _count_short_bytes(self, estimate: Estimate) -> int:
        """Return the bytes that an estimate lacks on the GPU itself."""
        interval, usable = estimate.device_interval, self._evaluator.device.usable_bytes
        return (interval.high if self._is_confident else estimate.device_bytes) - usable

    def _has_failed_shorter(self, option: LayoutOption, batch: Batch) -> bool:
        """Return whether the same batch failed with shorter sequences.

        As many shards have the same states and, with less context parallelism, more tokens.
        """
        group = get_length_group(option, batch)
        context_parallel, short_bytes = self._failed_shorter.get(group, (0, 0))
        failed = context_parallel >= option.layout.context_parallel
        if failed:
            self._failed_shards.record(option, batch, short_bytes)
            self._tried.setdefault(option, []).append(TriedBatch(batch, None, 1))
            self._pruned["longer_sequences"] += 1
        return failed

    def _exceeds_smaller(self, option: LayoutOption, batch: Batch, *, than: Batch) -> bool:
        """Return whether a smaller batch is too large."""
        exceeds = not self.fits(option, than)
        if exceeds:
            self._failed_shards.record_larger(option, batch, than=than)
        return exceeds

    def _exceeds_by_convexity(self, option: LayoutOption, batch: Batch) -> bool:
        """Return whether a batch is too large by extrapolation.

        It follows from what one and two sequences need: a highest of sums that grow evenly is
        convex.
        """
        double = batch.with_micro_batch_size(2)
        if (
            batch.micro_batch_size <= double.micro_batch_size
            or double not in self._space.list_batches(option)
        ):
            return False
        if self._exceeds_smaller(option, batch, than=double):
            return True
        single_bytes, double_bytes = (
            self._get_needed_bytes(option, batch.with_micro_batch_size(size)) for size in (1, 2)
        )
        least_bytes = single_bytes + (double_bytes - single_bytes) * (batch.micro_batch_size - 1)
        short_bytes = least_bytes - self._evaluator.device.usable_bytes
        self._failed_shards.record(option, batch, short_bytes)
        self._pruned["convex"] += short_bytes > 0
        return short_bytes > 0

    def _get_needed_bytes(self, option: LayoutOption, batch: Batch) -> int:
        """Return bytes that a batch needs, which grow evenly."""
        tried = self.find_tried(option, batch)
        assert tried is not None  # noqa: S101 - what fits was tried,
        assert tried.estimate is not None  # noqa: S101 - and estimated
        estimate = tried.estimate
        if self._is_confident:
            return estimate.device_interval.high
        # Cached memory is released where a job fills its GPU, so that holes grow no further.
        return estimate.allocated_bytes + estimate.device_bytes - estimate.reserved_bytes

    def _try_batch(self, option: LayoutOption, batch: Batch) -> TriedBatch:
        workload, layout = self._space.build_config(option, batch)
        if self._refusals.covers(option.strategy.name, (workload, layout)):
            self._pruned["cannot_run"] += 1
            return self._keep_tried(option, TriedBatch(batch, None, 1))
        self.num_estimated += 1
        try:
            estimate = self._evaluator.estimate_numbers(workload, layout)
            tried = TriedBatch(batch, estimate, self.compute_missing_bytes(estimate))
            if tried.missing_bytes:
                short_bytes = self._count_short_bytes(estimate)
                self._failed_shards.record(option, batch, short_bytes)
                group = get_length_group(option, batch)
                self._failed_shorter[group] = max(
                    self._failed_shorter.get(group, (0, 0)),
                    (option.layout.context_parallel, short_bytes),
                )
        except EstimatorError as refusal:
            self.record_refusal(refusal)
            self._refusals.record(option.strategy.name, (workload, layout), refusal)
            self._pruned["cannot_run"] += 1
            tried = TriedBatch(batch, None, 1)
        return self._keep_tried(option, tried)

    def _keep_tried(self, option: LayoutOption, tried: TriedBatch) -> TriedBatch:
        self._tried.setdefault(option, []).append(tried)
        return tried
