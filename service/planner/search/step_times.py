"""How long configurations take, for comparing them: per token of the whole job, and against the limits of a question."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from heapq import heapify, heappop, heappush
from itertools import count
from math import floor, inf, log10

from service.estimator.speed.throughput import step_clock, untimed
from service.estimator.speed.training import StepClock
from service.estimator.values.errors import EstimatorError
from service.estimator.values.layout import Layout
from service.estimator.values.result import Estimate, Interval, Throughput
from service.estimator.values.workload import Checkpointing, Offload, ServeWorkload, TrainWorkload, Workload
from service.planner.fit.evaluator import Subject
from service.planner.fit.time_lower_bound import seconds_per_token
from service.planner.search.layout_options import Batch, Slot
from service.planner.search.layouts import Space
from service.planner.search.listings import Chain
from service.planner.search.search_space import MAX_MICRO_BATCH_SIZE, TIMES, Limits
from service.planner.search.time_bounds import TimeBounds

_NOTHING = Interval(0, 0)
_NO_MEMORY = Estimate(
    num_gpus=1,
    allocated_bytes=0,
    reserved_bytes=0,
    device_bytes=0,
    steady_bytes=0,
    allocated_interval=_NOTHING,
    reserved_interval=_NOTHING,
    device_interval=_NOTHING,
    peak_instant="",
    components=(),
    instants=(),
    stages=(),
)
"""The time of a training step rests on no memory."""
_ENDLESS = 2**40
"""Micro batches that make what happens once a step count for nothing."""


_FIGURES = 6
ALIKE = 10 ** (1 - _FIGURES)
"""Times that six figures do not tell apart are alike: no clock is as good, and rounding up in a ring decides nothing."""
_Timed = tuple[float, tuple[int, ...], int, Slot, Chain]


class Clock:
    """Times of the configurations of one question on one kind of GPU."""

    def __init__(self, subject: Subject, space: Space) -> None:
        """Time nothing before it is asked."""
        self._subject, self._space = subject, space
        limits = space.question.limits
        self._limits = limits
        self.is_limited = any(getattr(limits, name) is not None for name in TIMES)
        self._seconds: dict[tuple[Slot, Batch], float] = {}
        self._floors: dict[Slot, float] = {}
        self._alone: float | None = None
        workload, device = space.question.workload, subject.device
        self._steps: StepClock | None = None
        if isinstance(workload, TrainWorkload) and untimed(subject.architecture, device) is None:
            self._steps = step_clock(subject.architecture, workload, device, subject.works)
        is_bounded = self.is_limited and isinstance(workload, TrainWorkload)
        self.bounds = TimeBounds(space, self._steps) if is_bounded else None

    def throughput(self, workload: Workload, layout: Layout) -> Throughput | None:
        """Return the time of a configuration; None where nobody told the GPU's rates."""
        estimate = _NO_MEMORY if isinstance(workload, TrainWorkload) else self._subject.evaluate(workload, layout)
        return self._subject.throughput(workload, layout, estimate)

    def seconds_per_token(self, slot: Slot, batch: Batch) -> float:
        """Return the time of one token of the whole job; where nobody told the rates, arithmetic alone is compared."""
        found = self._seconds.get((slot, batch))
        if found is None:
            found = self._seconds[slot, batch] = self._timed(slot, batch)
        return found

    def by_time(
        self, slots: Iterable[Slot], batches: Callable[[Slot], Sequence[Batch]], *, able: Callable[[Slot], bool]
    ) -> Iterator[tuple[float, Slot, Batch]]:
        """Yield the batches of the slots that are able, the fastest first, of those alike the simplest first.

        A slot is looked into when nothing that is known is faster than it can be at best.
        """
        order = count()
        roomy = [(slot, found) for slot in slots if (found := batches(slot))]
        heap: list[_Timed] = [(self._least(slot, found), (), next(order), slot, ()) for slot, found in roomy]
        heapify(heap)
        while heap:
            _, _, _, slot, chain = heappop(heap)
            if chain:
                yield self.seconds_per_token(slot, chain[0]), slot, chain[0]
                following: Sequence[Chain] = [chain[1:]] if len(chain) > 1 else []
            else:
                following = self._chains(batches(slot)) if able(slot) else []
            for each in following:
                seconds = self.seconds_per_token(slot, each[0])
                heappush(heap, (_rounded(seconds), _complexity(slot, each[0]), next(order), slot, each))

    def _chains(self, batches: Sequence[Batch]) -> Sequence[Chain]:
        """Return batches of one recomputation and accumulation, the largest first: what each pass takes at least is shared."""
        return [(batch,) for batch in batches] if self._steps is None else self._space.listings.chains(batches)

    def least_seconds(self, num_gpus: int) -> float:
        """Return a bound of the time per token on so many GPUs: one GPU's arithmetic without steps, spread without loss."""
        workload = self._space.question.workload
        if isinstance(workload, ServeWorkload):
            return 0.0
        if self._alone is None:
            alone = replace(
                workload,
                micro_batch_size=max(MAX_MICRO_BATCH_SIZE, workload.micro_batch_size),
                gradient_accumulation_steps=_ENDLESS,
                activation_checkpointing=Checkpointing.NONE,
                selective_every=None,
                offload=Offload(),
            )
            self._alone = self._stepped(alone, Layout(gpus_per_node=self._space.asked.gpus_per_node)) or 0.0
        return self._alone / num_gpus

    def is_in_time(self, workload: Workload, throughput: Throughput | None) -> bool:
        """Whether a time keeps the limits; where there are limits, an unknown time does not."""
        if not self.is_limited:
            return True
        return throughput is not None and next(_broken(self._limits, workload, throughput), None) is None

    def in_time(
        self, slots: Iterable[Slot], batches: Callable[[Slot], Sequence[Batch]], *, able: Callable[[Slot], bool]
    ) -> Iterator[tuple[Slot, Batch]]:
        """Yield the configurations of training that keep the limits, the fastest first; nothing slower per token is timed."""
        bounds = self.bounds
        assert bounds is not None  # noqa: S101 - asked where training is limited
        for seconds, slot, batch in self.by_time(slots, batches, able=able):
            if seconds > bounds.most_seconds_per_token * (1 + ALIKE):
                return
            workload, layout = self._space.config(slot, batch)
            if self.is_in_time(workload, self.throughput(workload, layout)):
                yield slot, batch

    def may_keep(self, slot: Slot, batch: Batch) -> bool:
        """Whether a configuration may keep the limits of time, as far as its step alone tells."""
        return self.bounds is None or self.bounds.may_keep(slot, batch)

    def by_excess(
        self, slots: Iterable[Slot], batches: Callable[[Slot], Sequence[Batch]], *, able: Callable[[Slot], bool]
    ) -> Iterator[tuple[float, Slot, Batch]]:
        """Yield configurations, those that come nearest to the limits of time first."""
        if self.bounds is None:
            pairs = [(slot, batch) for slot in slots for batch in batches(slot)]
            for slot, batch in sorted(pairs, key=lambda pair: self._excess(*pair)):
                yield self.seconds_per_token(slot, batch), slot, batch
        elif self._limits.max_step_time_s is None:
            yield from self.by_time(slots, batches, able=able)
        else:
            for slot, batch in self._by_excess(slots, batches, self.bounds, able=able):
                yield self.seconds_per_token(slot, batch), slot, batch

    @staticmethod
    def _by_excess(
        slots: Iterable[Slot],
        batches: Callable[[Slot], Sequence[Batch]],
        bounds: TimeBounds,
        *,
        able: Callable[[Slot], bool],
    ) -> Iterator[tuple[Slot, Batch]]:
        """Yield the smallest batches of the slots that are able; a slot is looked into when none that is known is nearer."""
        order = count()
        heap: list[tuple[float, int, Slot, Batch | None]] = [
            (bounds.least_excess(slot), next(order), slot, None) for slot in slots if batches(slot)
        ]
        heapify(heap)
        while heap:
            _, _, slot, batch = heappop(heap)
            if batch is not None:
                yield slot, batch
            elif able(slot):
                found = batches(slot)
                least = min(each.micro_batch_size for each in found)
                for each in (each for each in found if each.micro_batch_size == least):
                    heappush(heap, (bounds.excess(slot, each), next(order), slot, each))

    def _excess(self, slot: Slot, batch: Batch) -> float:
        """Return how many times over the limit that is broken most a configuration is."""
        workload, layout = self._space.config(slot, batch)
        try:
            throughput = self.throughput(workload, layout)
        except EstimatorError:
            return float("inf")
        return float("inf") if throughput is None else excess(self._limits, workload, throughput)

    def _least(self, slot: Slot, batches: Sequence[Batch]) -> float:
        found = self._floors.get(slot)
        if found is None:
            found = self._floors[slot] = _rounded(self._floor(slot, batches))
        return found

    def _floor(self, slot: Slot, batches: Sequence[Batch]) -> float:
        """Return the least time per token of a slot: the largest batch and the most steps, and as little computed again."""
        if isinstance(self._space.question.workload, ServeWorkload):
            return 0.0
        workload, layout = self._space.config(slot, self._space.listings.cheapest(batches))
        assert isinstance(workload, TrainWorkload)  # noqa: S101 - of the question
        return self._stepped(workload, layout) or 0.0

    def _stepped(self, workload: TrainWorkload, layout: Layout) -> float | None:
        """Return the seconds of one token of the whole job; None where nobody told the GPU's rates."""
        seconds = None if self._steps is None else self._steps.seconds(workload, layout)
        tokens = workload.micro_batch_size * workload.gradient_accumulation_steps * layout.data_parallel
        return None if seconds is None else seconds / (tokens * workload.sequence_length)

    def _timed(self, slot: Slot, batch: Batch) -> float:
        workload, layout = self._space.config(slot, batch)
        if isinstance(workload, TrainWorkload):
            found = self._stepped(workload, layout)
            return seconds_per_token(self._subject, workload, layout) / layout.num_gpus if found is None else found
        try:
            throughput = self.throughput(workload, layout)
        except EstimatorError:
            return float("inf")
        return 0.0 if throughput is None else throughput.step_time_s


def too_slow(limits: Limits, fastest: tuple[Workload, Throughput | None] | None) -> str | None:
    """Return in words which limit of time the fastest configuration breaks."""
    if fastest is None:
        return None
    workload, throughput = fastest
    if throughput is None:
        return "nobody told the speed of this GPU, and the request limits the time"
    broken = next(_broken(limits, workload, throughput), None)
    return None if broken is None else f"fits, but {broken}"


def excess(limits: Limits, workload: Workload, throughput: Throughput) -> float:
    """Return how many times over its limit a time is, the worst of them; 1 or less where all are kept."""
    least = limits.min_tokens_per_second
    over = [least / throughput.tokens_per_second] if least is not None else []
    return max([*over, *(spent / most for _, _, spent, most in _spent(limits, workload, throughput))], default=0.0)


def _broken(limits: Limits, workload: Workload, throughput: Throughput) -> Iterator[str]:
    """Yield in words the limits that a time breaks."""
    least, rate = limits.min_tokens_per_second, throughput.tokens_per_second
    if least is not None and rate < least:
        yield f"makes {rate:,.0f} tokens per second, fewer than {_in_figures(least)}"
    for words, unit, spent, most in _spent(limits, workload, throughput):
        if spent > most:
            yield f"{words} takes {_in_figures(spent)} {unit}, more than {_in_figures(most)} {unit}"


def _spent(limits: Limits, workload: Workload, throughput: Throughput) -> Iterator[tuple[str, str, float, float]]:
    """Yield what is limited, its unit, how much it takes and how much it may."""
    serves = isinstance(workload, ServeWorkload)
    hours = throughput.hours_for_tokens
    asked = (
        ("a step", "s", None if serves else throughput.step_time_s, limits.max_step_time_s),
        ("the run", "hours", hours, limits.max_hours),
        ("prefill", "s", throughput.prefill_time_s, limits.max_prefill_time_s),
        ("a token", "s", throughput.step_time_s if serves else None, limits.max_time_per_output_token_s),
    )
    for words, unit, spent, most in asked:
        if spent is not None and most is not None:
            yield words, unit, spent, most


def _rounded(seconds: float) -> float:
    """Return a time to as many figures as tell two of them apart."""
    return round(seconds, _FIGURES - 1 - floor(log10(seconds))) if 0 < seconds < inf else seconds


def _in_figures(value: float) -> str:
    """Return three figures of a number that is neither large nor small enough for them to hide it."""
    if value >= 100:  # noqa: PLR2004 - three figures before the point
        return f"{value:,.0f}"
    return f"{value:.{max(2 - floor(log10(value)), 0)}f}".rstrip("0").rstrip(".") if value > 0 else "0"


def _complexity(slot: Slot, batch: Batch) -> tuple[int, int, int, int]:
    layout = slot.layout
    degrees = (layout.tensor_parallel, layout.pipeline_parallel, layout.context_parallel, layout.expert_parallel)
    return sum(degree > 1 for degree in degrees), 2 - batch.recomputed, layout.zero_stage, batch.micro_batch_size
