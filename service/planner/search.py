"""Tries configurations of one number of GPUs: bounds first, numbers for what survives, the whole walk for what is shown."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from service.estimator.errors import EstimatorError
from service.estimator.result import Estimate
from service.estimator.workload import ServeWorkload, TrainWorkload
from service.planner.bounds import kept_of_sequence, states_of
from service.planner.candidates import Candidate, Rejected, rejected
from service.planner.clock import ALIKE, Clock, too_slow
from service.planner.layouts import Batch, Slot, Space
from service.planner.moves import Config
from service.planner.replays import Ahead, Tried, alike, nearest_to_replay
from service.planner.subject import Subject, asked_once
from service.planner.verdict import judge, missing_bytes


class Search:
    """The configurations of one question on one kind of GPU, each estimated at most once."""

    def __init__(self, subject: Subject, space: Space) -> None:
        """Estimate nothing before it is asked."""
        self.space, self.question = space, space.question
        serves = isinstance(self.question.workload, ServeWorkload)
        self.subject = subject = asked_once(subject) if serves else subject
        self.num_considered = self.num_estimated = 0
        self.pruned: Counter[str] = Counter()
        self.refusal: EstimatorError | None = None
        self.ahead = Ahead(subject.device.usable_bytes, is_confident=self.question.limits.confidence is not None)
        self.clock = Clock(subject, space)
        self._states = states_of(subject.architecture, self.question.workload)
        self._before_gradients = replace(self._states, gradients=0)
        self._kept = kept_of_sequence(subject.architecture, self.question.workload)
        self._tried: dict[Slot, list[Tried]] = {}
        self._hopeless: dict[object, int] = {}
        self._confident = self.question.limits.confidence is not None
        self._bounded: dict[int, tuple[Slot, ...]] = {}
        self._leasts: dict[int, bool] = {}
        self._needs: dict[Slot, int] = {}
        self._roomy: dict[Slot, tuple[Batch, ...]] = {}

    def bounded(self, num_gpus: int) -> tuple[Slot, ...]:
        """Return the slots whose states alone leave room, those that need least first."""
        found = self._bounded.get(num_gpus)
        if found is None:
            found = self._bounded[num_gpus] = self._with_states(self.space.slots(num_gpus))
        return found

    def _with_states(self, slots: Iterable[Slot]) -> tuple[Slot, ...]:
        """Return those of some slots whose states have room, those that need least first."""
        usable, kept = self.subject.device.usable_bytes, []
        for slot in slots:
            needs = self._needs.get(slot)
            if needs is None:
                needs = self._needs[slot] = self._states.of_one(slot)
                layouts = len(self.space.batches(slot))
                self.num_considered += layouts
                self.pruned["states_alone"] += layouts * (needs > usable)
            if needs <= usable:
                kept.append((needs, slot))
        kept.sort(key=lambda pair: (pair[0], -pair[1].layout.context_parallel))
        return tuple(slot for _, slot in kept)

    def roomy(self, slot: Slot) -> tuple[Batch, ...]:
        """Return the batches of which what backward needs has room beside the states, once; gradients come later."""
        found = self._roomy.get(slot)
        if found is None:
            found = self._roomy[slot] = tuple(self._with_room(slot))
            self.pruned["activations_alone"] += len(self.space.batches(slot)) - len(found)
        return found

    def _with_room(self, slot: Slot) -> Iterator[Batch]:
        layout = slot.layout
        split = layout.tensor_parallel * layout.pipeline_parallel * layout.context_parallel
        room = (self.subject.device.usable_bytes - self._before_gradients.of_one(slot)) * split
        for batch in self.space.batches(slot):
            kept = self._kept.everything if batch.keeps_everything else self._kept.inputs
            if kept * batch.micro_batch_size * batch.flying <= room:
                yield batch

    def suffices(self, num_gpus: int) -> bool:
        """Whether some configuration of so many GPUs is enough."""
        if self.clock.is_limited and not isinstance(self.question.workload, ServeWorkload):
            if self._first_in_time(num_gpus) is not None:
                return True
        elif any(self._smallest_fits(slot) for slot in self.bounded(num_gpus)):
            return True
        return next(self._replayed_fits(self.bounded(num_gpus)), None) is not None

    def best(
        self, num_gpus: int, *, faster_than: float | None = None, among: Iterable[Slot] | None = None
    ) -> Iterator[Candidate]:
        """Yield what is enough on so many GPUs as it is shown, the fastest first; each way and recomputation once."""
        seen: set[object] = set()
        slots = self.bounded(num_gpus) if among is None else self._with_states(among)
        for seconds, slot, batch in self.clock.by_time(slots, self.roomy, able=self._is_open):
            if faster_than is not None and seconds >= faster_than:
                return
            kind = (slot.way.name, slot.layout.zero_stage, slot.offload, slot.quantization, batch.recomputed)
            if kind in seen:
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
        """Return why so many GPUs are too few; nothing when no configuration of them can run.

        Where states alone have no room, the one with the smallest stands for all unless the ``nearest_of_all`` is asked.
        """
        bounded, usable = self.bounded(num_gpus), self.subject.device.usable_bytes
        nearest: tuple[int, Slot, Batch] | None = None
        for slot in bounded or sorted(self.space.slots(num_gpus), key=self._needs.__getitem__):
            if nearest and not bounded and (not nearest_of_all or self._needs[slot] - usable >= nearest[0]):
                break
            tried = self._least(slot)
            if tried.estimate is not None and (nearest is None or tried.missing_bytes < nearest[0]):
                nearest = (tried.missing_bytes, slot, tried.batch)
        if nearest is None:
            return None
        _, slot, batch = nearest
        workload, layout = self.space.config(slot, batch)
        found = self._candidate((workload, layout), self.subject.evaluate(workload, layout), 0.0)
        if not found.missing_bytes:  # its numbers suffice, so that it takes too long, or a replay reserves more
            found = self.answered(slot, batch, 0.0) or found
        elif self.clock.is_limited:  # one that is enough once it is replayed may be what takes too long
            found = next(self._replayed_fits(self.bounded(num_gpus), in_time=False), found)
            if not found.missing_bytes:
                slow = too_slow(self.question.limits, (found.workload, found.throughput))
                return rejected(found, usable, too_slow=slow)
        slow = None
        if self.clock.is_limited and not found.missing_bytes:
            found = self._nearest_in_time(num_gpus) or found
            slow = too_slow(self.question.limits, (found.workload, found.throughput))
        return rejected(found, usable, too_slow=slow)

    def answered(self, slot: Slot, batch: Batch, seconds: float) -> Candidate | None:
        """Return a candidate as it is shown: with all that is known of it; None where it is refused after all."""
        workload, layout = self.space.config(slot, batch)
        try:
            estimate = self.subject.answer(workload, layout)
        except EstimatorError as refusal:
            self.refusal = self.refusal or refusal
            return None
        throughput = self.subject.throughput(workload, layout, estimate)
        if throughput is not None and isinstance(workload, TrainWorkload):
            seconds = 1 / throughput.tokens_per_second
        return replace(self._candidate((workload, layout), estimate, seconds), throughput=throughput)

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

    def _nearest_in_time(self, num_gpus: int) -> Candidate | None:
        """Return what has room and comes nearest to the limits of time."""
        for seconds, slot, batch in self.clock.by_excess(self.bounded(num_gpus), self.roomy, able=self._is_open):
            if self._fits(slot, batch):
                return self.answered(slot, batch, seconds)
        return None

    def _first_in_time(self, num_gpus: int) -> tuple[Slot, Batch] | None:
        """Return the fastest that has room and keeps the limits of time; nothing slower per token than they allow is timed."""
        most = self.clock.most_seconds_per_token
        slots = [slot for slot in self.bounded(num_gpus) if self.clock.may_step_in_time(slot, self.roomy(slot))]
        for seconds, slot, batch in self.clock.by_time(slots, self.roomy, able=self._is_open):
            if seconds > most * (1 + ALIKE):
                return None
            if self._in_time(slot, batch) and self._fits(slot, batch):
                return slot, batch
        return None

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
        near = nearest_to_replay(((slot, self._least(slot)) for slot in slots), self.subject.device.usable_bytes)
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
