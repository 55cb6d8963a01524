"""Tries configurations of one number of GPUs: bounds first, the whole walk for what survives them."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from service.estimator.errors import EstimatorError
from service.estimator.layout import Layout
from service.estimator.result import Component, Estimate
from service.estimator.states import train_states, trained_parameters
from service.estimator.units import format_bytes
from service.estimator.workload import Checkpointing, ServeWorkload, TrainWorkload, Workload
from service.planner.moves import Config
from service.planner.pace import seconds_per_token
from service.planner.space import LEVEL, Question, configs, larger_batches
from service.planner.subject import Subject
from service.planner.verdict import Judgement, judge, missing_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A complete configuration: fed back into a fit it gives the same bytes.

    ``missing_bytes`` is what it lacks for the confidence that was asked (with one, at the upper end of the interval), 0 when
    it is enough.
    """

    num_gpus: int
    workload: Workload
    layout: Layout
    estimate: Estimate
    judgement: Judgement
    missing_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """A number of GPUs that is too small: the configuration that came nearest, in words and numbers.

    ``deficit_bytes`` is missing at the point, 0 when it is only tight; ``missing_bytes`` for the confidence that was asked.
    """

    num_gpus: int
    reason: str
    instant: str
    component: str
    deficit_bytes: int
    missing_bytes: int
    nearest: Candidate


class Search:
    """The configurations of one question, each estimated at most once."""

    def __init__(self, subject: Subject, question: Question) -> None:
        """Estimate nothing before it is asked."""
        self.subject, self.question = subject, question
        self.num_estimated = 0
        self.pruned: Counter[str] = Counter()
        self.refusal: EstimatorError | None = None
        self._tried: dict[int, tuple[Candidate, ...]] = {}

    def tried(self, num_gpus: int) -> tuple[Candidate, ...]:
        """Return what was estimated for so many GPUs: all that the bounds let through, or the one that came nearest to them."""
        if num_gpus not in self._tried:
            self._tried[num_gpus] = tuple(self._estimated(self._bounded(configs(self.question, num_gpus))))
        return self._tried[num_gpus]

    def suffices(self, num_gpus: int) -> bool:
        """Whether some configuration of so many GPUs is enough."""
        return any(not candidate.missing_bytes for candidate in self.tried(num_gpus))

    def rejection(self, num_gpus: int) -> Rejected | None:
        """Return why so many GPUs are too few; nothing when no configuration of them can run."""
        nearest = min(self.tried(num_gpus), key=lambda candidate: candidate.missing_bytes, default=None)
        return None if nearest is None else _rejected(nearest, self.subject.device.usable_bytes)

    def ranked(self, num_gpus: int) -> tuple[Candidate, ...]:
        """Return what is enough on so many GPUs, the fastest first, of equally fast ones that which changes least.

        Of each sharding and checkpointing only the best micro batch is kept.
        """
        enough = [candidate for candidate in self.tried(num_gpus) if not candidate.missing_bytes]
        for smallest in tuple(enough):
            for config in larger_batches(self.question, (smallest.workload, smallest.layout)):
                grown = tuple(self._estimated([config]))
                if not grown or grown[0].missing_bytes:
                    break
                enough += grown
        best: dict[object, Candidate] = {}
        for candidate in sorted(enough, key=self._cost):
            best.setdefault(_kind(candidate), candidate)
        return tuple(best.values())

    def answered(self, candidate: Candidate) -> Candidate:
        """Return a candidate as it is shown: with all that is known of it."""
        estimate = self.subject.answer(candidate.workload, candidate.layout)
        return replace(
            candidate,
            estimate=estimate,
            judgement=judge(estimate, self.subject.device),
            missing_bytes=self._missing_bytes(estimate),
        )

    def _bounded(self, found: Iterable[Config]) -> list[Config]:
        """Drop configurations whose states alone are too large; when all are, keep the smallest to say by how much."""
        sized = [(_resident_bytes(self.subject, config), config) for config in found]
        kept = [config for num_bytes, config in sized if num_bytes <= self.subject.device.usable_bytes]
        if sized and not kept:
            kept = [min(sized, key=lambda pair: (pair[0], not _recomputes(pair[1][0])))[1]]
        self.pruned["states_alone"] += len(sized) - len(kept)
        return kept

    def _estimated(self, found: Iterable[Config]) -> Iterable[Candidate]:
        for workload, layout in found:
            self.num_estimated += 1
            try:
                estimate = self.subject.evaluate(workload, layout)
            except EstimatorError as refusal:
                self.refusal = self.refusal or refusal
                self.pruned["cannot_run"] += 1
                continue
            yield Candidate(
                num_gpus=layout.num_gpus,
                workload=workload,
                layout=layout,
                estimate=estimate,
                judgement=judge(estimate, self.subject.device),
                missing_bytes=self._missing_bytes(estimate),
            )

    def _missing_bytes(self, estimate: Estimate) -> int:
        return missing_bytes(estimate, self.subject.device, confident=self.question.limits.confidence is not None)

    def _cost(self, candidate: Candidate) -> tuple[float, bool, int, int]:
        workload, layout = candidate.workload, candidate.layout
        if isinstance(workload, ServeWorkload):
            return 0.0, False, 0, 0
        seconds = seconds_per_token(self.subject, workload, layout)
        return seconds, _recomputes(workload), layout.zero_stage, workload.micro_batch_size


def counters(search: Search, *, indivisible: int) -> Mapping[str, int]:
    """Return how many configurations needed no estimate, by reason; reasons that never came up are left out."""
    pruned = search.pruned + Counter({"global_batch_size": indivisible})
    return {reason: count for reason, count in sorted(pruned.items()) if count}


def _recomputes(workload: Workload) -> bool:
    return isinstance(workload, TrainWorkload) and workload.activation_checkpointing is not Checkpointing.NONE


def _kind(candidate: Candidate) -> object:
    return candidate.layout.sharding, candidate.layout.zero_stage, _recomputes(candidate.workload)


def _resident_bytes(subject: Subject, config: Config) -> int:
    """Return a lower bound of what a configuration needs: the states that live from step to step."""
    workload, layout = config
    if not isinstance(workload, TrainWorkload):
        return 0
    try:
        trained = trained_parameters(subject.architecture, workload)
        return train_states(subject.architecture, workload, trained, layout).resident
    except EstimatorError:
        return 0  # the walk refuses it in words


def _rejected(nearest: Candidate, usable_bytes: int) -> Rejected:
    estimate = nearest.estimate
    largest = max(estimate.components, key=lambda part: part.bytes)
    return Rejected(
        num_gpus=nearest.num_gpus,
        reason=_reason(nearest, largest, usable_bytes),
        instant=estimate.peak_instant,
        component=largest.name,
        deficit_bytes=nearest.judgement.deficit_bytes,
        missing_bytes=nearest.missing_bytes,
        nearest=nearest,
    )


def _reason(nearest: Candidate, largest: Component, usable_bytes: int) -> str:
    estimate, part = nearest.estimate, largest.name.replace("_", " ")
    serving = estimate.serving
    if serving is not None and serving.smallest_bytes is not None:
        needs = format_bytes(max(serving.required_bytes, serving.smallest_bytes))
        return f"the engine needs {needs} per GPU of a budget of {format_bytes(serving.budget_bytes)}"
    usable = f"of {format_bytes(usable_bytes)} usable"
    if largest.bytes > usable_bytes:
        verb = "need" if part.endswith("s") else "needs"
        return f"{part} alone {verb} {format_bytes(largest.bytes)} per GPU {usable}"
    if estimate.device_bytes <= usable_bytes:
        high = format_bytes(estimate.device_interval.high)
        return f"{format_bytes(estimate.device_bytes)} per GPU {usable} would be tight: up to {high} at {LEVEL:.0%}"
    share = f"{part} {format_bytes(largest.bytes)}"
    return f"{estimate.peak_instant} needs {format_bytes(estimate.device_bytes)} per GPU {usable}, the most of it {share}"
