"""Configurations of a search as candidates, in the order of their times.

Those are counted as late as possible.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from heapq import heappop, heappush
from itertools import count

from service.estimator.values.errors import EstimatorError
from service.estimator.values.result import Estimate
from service.planner.fit.candidates import Candidate
from service.planner.fit.evaluator import Config, Evaluator
from service.planner.fit.verdict import judge
from service.planner.search.layout_options import Batch, LayoutOption, rank_complexity
from service.planner.search.layouts import SearchSpace
from service.planner.search.step_times import round_time
from service.planner.search.tried_batches import TriedBatches

Timed = tuple[float, LayoutOption, Batch]
"""A time per token and the configuration that has it."""
_Entry = tuple[float, tuple[int, ...], int, float, LayoutOption, Batch]


class CandidateBuilder:
    """Answers and explains configurations of one question on one kind of GPU."""

    def __init__(self, evaluator: Evaluator, space: SearchSpace, batches: TriedBatches) -> None:
        """Build candidates by an evaluator; ``batches`` says what they lack."""
        self._evaluator, self._space, self._batches = evaluator, space, batches

    def answer(self, option: LayoutOption, batch: Batch, seconds: float) -> Candidate | None:
        """Return a fully answered candidate, or None if refused.

        It has all that is known of it.
        """
        workload, layout = self._space.build_config(option, batch)
        try:
            estimate = self._evaluator.answer(workload, layout)
        except EstimatorError as refusal:
            self._batches.record_refusal(refusal)
            return None
        return self._time_candidate((workload, layout), estimate, seconds)

    def explain(self, option: LayoutOption, batch: Batch) -> Candidate:
        """Return a candidate with its memory components, without a replay."""
        workload, layout = self._space.build_config(option, batch)
        return self._time_candidate(
            (workload, layout), self._evaluator.evaluate(workload, layout), 0.0
        )

    def _time_candidate(self, config: Config, estimate: Estimate, seconds: float) -> Candidate:
        throughput = self._evaluator.get_throughput(*config, estimate)
        if throughput is not None:
            seconds = 1 / throughput.tokens_per_second
        return replace(self._make_candidate(config, estimate, seconds), throughput=throughput)

    def _make_candidate(self, config: Config, estimate: Estimate, seconds: float) -> Candidate:
        return Candidate(
            num_gpus=estimate.num_gpus,
            workload=config[0],
            layout=config[1],
            estimate=estimate,
            judgement=judge(estimate, self._evaluator.device),
            missing_bytes=self._batches.compute_missing_bytes(estimate),
            seconds_per_token=seconds,
        )


def iter_by_counted_time(
    bounded: Iterable[Timed],
    count_seconds: Callable[[LayoutOption, Batch], float | None],
    *,
    faster_than: float | None = None,
) -> Iterator[Timed]:
    """Yield configurations by their counted times, the fastest first.

    ``bounded`` come by a lower bound of these, so that nothing is counted whose bound is beyond
    what is taken. A time of None drops its configuration. Of equally fast ones the simplest comes
    first, and none that is not ``faster_than`` a limit.
    """
    order = count()
    waiting: list[_Entry] = []
    for bound, option, batch in bounded:
        if faster_than is not None and bound >= faster_than:
            break
        while waiting and waiting[0][0] < round_time(bound):
            yield heappop(waiting)[3:]
        seconds = count_seconds(option, batch)
        if seconds is not None and (faster_than is None or seconds < faster_than):
            entry = (rank_complexity(option, batch), next(order), seconds, option, batch)
            heappush(waiting, (round_time(seconds), *entry))
    while waiting:
        yield heappop(waiting)[3:]
