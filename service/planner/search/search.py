"""Tries configurations of one number of GPUs: bounds first, numbers for what survives, the whole walk for what is shown."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from service.estimator.values.errors import EstimatorError
from service.estimator.values.result import Estimate
from service.estimator.values.workload import ServeWorkload, TrainWorkload
from service.planner.fit.candidates import Candidate, Rejected, rejected
from service.planner.fit.evaluator import Subject, asked_once
from service.planner.fit.remedy_steps import Config
from service.planner.fit.verdict import judge, missing_bytes
from service.planner.search.layout_options import Batch, Slot
from service.planner.search.layouts import Space
from service.planner.search.memory_bounds import Room
from service.planner.search.nearest_miss import Misses
from service.planner.search.replays import Ahead, Tried, alike, nearest_to_replay, without_shards
from service.planner.search.step_times import Clock, too_slow


class Search:
    """The configurations of one question on one kind of GPU, each estimated at most once."""

    def __init__(self, subject: Subject, space: Space) -> None:
        """Estimate nothing before it is asked."""
        self.space, self.question = space, space.question
        serves = isinstance(self.question.workload, ServeWorkload)
        self.subject = subject = asked_once(subject) if serves else subject
        self.num_estimated = 0
        self.pruned: Counter[str] = Counter()
        self.room = Room(subject, space, self.pruned)
        self.refusal: EstimatorError | None = None
        self.ahead = Ahead(subject.device.usable_bytes, is_confident=self.question.limits.confidence is not None)
        self.clock = Clock(subject, space)
        self._misses = Misses(space, self.room, self._least)
        self._tried: dict[Slot, list[Tried]] = {}
        self._hopeless: dict[object, int] = {}
        self._confident = self.question.limits.confidence is not None
        self._leasts: dict[int, bool] = {}
        self._too_large: dict[object, int] = {}
        self._hasty: dict[Slot, bool] = {}

    @property
    def num_considered(self) -> int:
        """Return how many configurations were looked at."""
        return self.room.num_considered

    def suffices(self, num_gpus: int) -> bool:
        """Whether some configuration of so many GPUs is enough."""
        slots = self._in_haste(self.room.bounded(num_gpus))
        if self.clock.bounds is not None:
            fast = self.clock.in_time(slots, self.room.roomy, able=self._is_open)
            if any(self._fits(slot, batch) for slot, batch in fast):
                return True
        elif any(self._smallest_fits(slot) for slot in slots if self.room.roomy(slot)):
            return True
        return next(self._replayed_fits([slot for slot in slots if self.room.roomy(slot)]), None) is not None

    def _in_haste(self, slots: Sequence[Slot]) -> Sequence[Slot]:
        """Return the slots that may keep the limits of time, as far as their steps alone tell."""
        bounds = self.clock.bounds
        if bounds is None:
            return slots
        for slot in slots:
            if slot not in self._hasty:
                self._hasty[slot] = bounds.may_any_keep(slot)
                self.pruned["time_alone"] += 0 if self._hasty[slot] else len(self.space.batches(slot))
        return [slot for slot in slots if self._hasty[slot]]

    def best(
        self, num_gpus: int, *, faster_than: float | None = None, among: Iterable[Slot] | None = None
    ) -> Iterator[Candidate]:
        """Yield what is enough on so many GPUs as it is shown, the fastest first; each way and recomputation once."""
        seen: set[object] = set()
        slots = self._in_haste(self.room.bounded(num_gpus) if among is None else self.room.with_states(among))
        for seconds, slot, batch in self.clock.by_time(slots, self.room.roomy, able=self._is_open):
            if faster_than is not None and seconds >= faster_than:
                return
            kind = (slot.way.name, slot.layout.zero_stage, slot.offload, slot.quantization, batch.recomputed)
            if kind in seen or not self.clock.may_keep(slot, batch):
                continue
            if not self._fits(slot, batch) and not self.ahead.takes(slot, self._found(slot, batch)):
                continue
            found = self.answered(slot, batch, seconds)
            if found is not None and not found.missing_bytes and self.clock.is_in_time(found.workload, found.throughput):
                seen.add(kind)
                yield found
        if not seen:
            yield from self._replayed_fits(slots)

    def rejection(self, num_gpus: int, *, nearest_of_all: bool = False) -> Rejected | None:
        """Return why so many GPUs are too few; nothing when no configuration of them can run."""
        late = self._late(num_gpus) if self.clock.is_limited else None
        if late is not None:
            return late
        nearest = self._misses.nearest(num_gpus, of_all=nearest_of_all)
        if nearest is None:
            return None
        slot, batch = nearest
        found = self._explained(slot, batch)
        if not found.missing_bytes:  # its numbers suffice, so that a replay reserves more
            found = self.answered(slot, batch, 0.0) or found
        return rejected(found, self.subject.device.usable_bytes)

    def _late(self, num_gpus: int) -> Rejected | None:
        """Return that what has room on so many GPUs takes too long; nothing where nothing has, or what has is in time.

        It is told of numbers alone, which a replay of each would cost a hundred times over, unless only a replay has room.
        """
        bounded, usable = self.room.bounded(num_gpus), self.subject.device.usable_bytes
        nearest = self.clock.by_excess(bounded, self.room.roomy, able=self._is_open)
        fitting = (self._explained(slot, batch) for _, slot, batch in nearest if self._may_be_told(slot, batch))
        found = next(fitting, None) or next(self._replayed_fits(bounded, in_time=False), None)
        slow = None if found is None else too_slow(self.question.limits, (found.workload, found.throughput))
        return None if found is None or slow is None else rejected(found, usable, too_slow=slow)

    def _may_be_told(self, slot: Slot, batch: Batch) -> bool:
        """Whether a batch fits; one that does not rules out the same on fewer shards, and the least of its slot all others."""
        others, shards = without_shards(slot, batch), slot.layout.shards
        if shards <= self._too_large.get(others, 0):
            return False
        fits = self._fits(slot, batch)
        if not fits:
            self._too_large[others] = shards
            if self._is_least(self.space.batches(slot)):
                self._fits(slot, self.space.batches(slot)[0])
        return fits

    def answered(self, slot: Slot, batch: Batch, seconds: float) -> Candidate | None:
        """Return a candidate as it is shown: with all that is known of it; None where it is refused after all."""
        workload, layout = self.space.config(slot, batch)
        try:
            estimate = self.subject.answer(workload, layout)
        except EstimatorError as refusal:
            self.refusal = self.refusal or refusal
            return None
        return self._timed((workload, layout), estimate, seconds)

    def _explained(self, slot: Slot, batch: Batch) -> Candidate:
        """Return a candidate with what its bytes are made of, and no replay."""
        workload, layout = self.space.config(slot, batch)
        return self._timed((workload, layout), self.subject.evaluate(workload, layout), 0.0)

    def _timed(self, config: Config, estimate: Estimate, seconds: float) -> Candidate:
        throughput = self.subject.throughput(*config, estimate)
        if throughput is not None and isinstance(config[0], TrainWorkload):
            seconds = 1 / throughput.tokens_per_second
        return replace(self._candidate(config, estimate, seconds), throughput=throughput)

    def _candidate(self, config: Config, estimate: Estimate, seconds: float) -> Candidate:
        return Candidate(
            num_gpus=estimate.num_gpus,
            workload=config[0],
            layout=config[1],
            estimate=estimate,
            judgement=judge(estimate, self.subject.device),
            missing_bytes=self._missing(estimate),
            seconds_per_token=seconds,
        )

    def _smallest_fits(self, slot: Slot) -> bool:
        """Whether some batch of a slot fits; a question with limits of time asks for one that is in time as well."""
        batches = self.space.batches(slot)
        if self.clock.is_limited:
            return any(self._in_time(slot, batch) and self._fits(slot, batch) for batch in batches)
        if slot in self._tried or not self._is_least(batches):
            return any(self._fits(slot, batch) for batch in batches)
        fits = self._fits(slot, batches[0])
        self.pruned["monotone"] += 0 if fits else len(batches) - 1
        return fits

    def _is_least(self, batches: tuple[Batch, ...]) -> bool:
        """Whether all other batches need at least the memory of the first one."""
        found = self._leasts.get(id(batches))  # one object for many slots, which the space keeps
        if found is None:
            found = self._leasts[id(batches)] = all(batch.dominates(batches[0]) for batch in batches)
        return found

    def _is_open(self, slot: Slot) -> bool:
        """Whether nothing is known yet that rules a slot out."""
        least = self.space.batches(slot)[0]
        return not any(tried.missing_bytes and tried.batch == least for tried in self._tried.get(slot, ()))

    def _in_time(self, slot: Slot, batch: Batch) -> bool:
        workload, layout = self.space.config(slot, batch)
        return self.clock.is_in_time(workload, self.clock.throughput(workload, layout))

    def _least(self, slot: Slot) -> Tried:
        """Return what comes of the batch that needs least."""
        batch = self.space.batches(slot)[0]
        return self._found(slot, batch) or self._try(slot, batch)

    def _found(self, slot: Slot, batch: Batch) -> Tried | None:
        return next((tried for tried in self._tried.get(slot, ()) if tried.batch == batch), None)

    def _fits(self, slot: Slot, batch: Batch) -> bool:
        """Whether a batch of a slot fits; what needs at least the memory of one that does not is never estimated."""
        for tried in self._tried.get(slot, ()):
            if tried.batch == batch:
                return not tried.missing_bytes
            if tried.missing_bytes and batch.dominates(tried.batch):
                self.pruned["monotone"] += 1
                return False
        if self._is_hopeless(slot, batch):
            return False
        single = batch.sized(1)
        grows = batch.micro_batch_size > 1 and single in self.space.batches(slot)
        if grows and (not self._fits(slot, single) or self._grows_too_large(slot, batch)):
            return False
        return not self._try(slot, batch).missing_bytes

    def _is_hopeless(self, slot: Slot, batch: Batch) -> bool:
        """Whether as many shards with shorter sequences have failed at the same batch: the same states, and more tokens."""
        failed = self._hopeless.get(alike(slot, batch), 0) >= slot.layout.context_parallel
        if failed:
            self._tried.setdefault(slot, []).append(Tried(batch, None, 1))
            self.pruned["longer_sequences"] += 1
        return failed

    def _grows_too_large(self, slot: Slot, batch: Batch) -> bool:
        """Whether a batch needs too much by what one and two sequences need: a highest of sums that grow evenly is convex."""
        double = batch.sized(2)
        if batch.micro_batch_size <= double.micro_batch_size or double not in self.space.batches(slot):
            return False
        if not self._fits(slot, double):
            return True
        one, two = (self._needed(slot, batch.sized(size)) for size in (1, 2))
        too_large = one + (two - one) * (batch.micro_batch_size - 1) > self.subject.device.usable_bytes
        self.pruned["convex"] += too_large
        return too_large

    def _needed(self, slot: Slot, batch: Batch) -> int:
        found = self._found(slot, batch)
        assert found is not None  # noqa: S101 - what fits was tried,
        assert found.estimate is not None  # noqa: S101 - and estimated
        return found.estimate.device_interval.high if self._confident else found.estimate.device_bytes

    def _try(self, slot: Slot, batch: Batch) -> Tried:
        workload, layout = self.space.config(slot, batch)
        self.num_estimated += 1
        try:
            estimate = self.subject.numbers(workload, layout)
            tried = Tried(batch, estimate, self._missing(estimate))
            if tried.missing_bytes:
                others = alike(slot, batch)
                self._hopeless[others] = max(self._hopeless.get(others, 0), slot.layout.context_parallel)
        except EstimatorError as refusal:
            self.refusal = self.refusal or refusal
            self.pruned["cannot_run"] += 1
            tried = Tried(batch, None, 1)
        self._tried.setdefault(slot, []).append(tried)
        return tried

    def _replayed_fits(self, slots: Sequence[Slot], *, in_time: bool = True) -> Iterator[Candidate]:
        """Yield what is enough only when the allocator is replayed, of the configurations that come nearest."""
        first = ((slot, self.space.batches(slot)[0]) for slot in slots)
        tried = ((slot, self._least(slot)) for slot, batch in first if not in_time or self.clock.may_keep(slot, batch))
        near = nearest_to_replay(tried, self.subject.device.usable_bytes)
        for slot in near:
            batch = self.space.batches(slot)[0]
            if self._lacks_at_best(slot, batch):
                continue
            found = self.answered(slot, batch, self.clock.seconds_per_token(slot, batch))
            if found is None or found.missing_bytes:
                continue
            if not in_time or self.clock.is_in_time(found.workload, found.throughput):
                yield found

    def _lacks_at_best(self, slot: Slot, batch: Batch) -> bool:
        """Whether a configuration is too large even if the allocator leaves no hole: no replay of it needs to be tried."""
        least = self.subject.least(*self.space.config(slot, batch))
        lacks = least is not None and self._missing(least) > 0
        self.pruned["replay_at_best"] += lacks
        return lacks

    def _missing(self, estimate: Estimate) -> int:
        return missing_bytes(estimate, self.subject.device, confident=self._confident)
