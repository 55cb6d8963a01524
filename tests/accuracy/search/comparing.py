"""The estimator's answer to a question beside a trace of the model's own code."""

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace

from service.estimator.values.errors import EstimatorError
from service.estimator.values.workload import TrainWorkload
from service.probing.plan import ProbeQuestion, get_target_point
from service.probing.refusal import Refusal
from tests.accuracy.search.estimating import estimate_peaks
from tests.accuracy.search.one_by_one import grow_one_by_one
from tests.accuracy.search.questions import Question
from tests.accuracy.search.recorded import probe_recorded
from tests.accuracy.search.stepping import goes_beyond_probes, trace_step
from tests.accuracy.traced import trace_peaks
from worker.probes.measure import make_probe_setup
from worker.probes.ranks.parallelize import check_layout

RELATIVE = 1e-6
ABSOLUTE = 1024
"""Bytes of scalars that are alive for a moment."""
POSITION = 8
"""Bytes of a number for each position of one row, which the end of forward holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a question: bytes of both by phase, or who refused it and why."""

    question: Question
    estimated: Mapping[str, int]
    traced: Mapping[str, int]
    refusal: str = ""

    @property
    def differences(self) -> dict[str, int]:
        """Return the phases that differ, and by how many bytes."""
        off = {
            name: value - self.traced[name]
            for name, value in self.estimated.items()
            if name in self.traced
        }
        return {
            name: value
            for name, value in off.items()
            if abs(value) > max(self._rounding, RELATIVE * self.traced[name])
        }

    @property
    def _rounding(self) -> int:
        workload = self.question.workload
        return ABSOLUTE + (
            POSITION * workload.rows[1] if isinstance(workload, TrainWorkload) else 0
        )

    @property
    def error(self) -> float:
        """Return how far the highest bytes are off, as a part of these."""
        return max(self.estimated.values()) / max(self.traced.values()) - 1


def compare(question: Question) -> Outcome:
    """Ask the estimator and the trace."""
    refused = Outcome(question=question, estimated={}, traced={})
    try:
        estimated = estimate_peaks(question)
    except EstimatorError as error:
        return replace(refused, refusal=f"estimator: {error}")
    try:
        return Outcome(question=question, estimated=estimated, traced=trace_question(question))
    except Refusal as error:
        return replace(refused, refusal=f"trace: {error}")
    except Exception as error:  # noqa: BLE001 - what a model raises of a config is counted
        return replace(refused, refusal=f"model: {error!r:.160}")


def trace_question(question: Question) -> dict[str, int]:
    """Return the traced bytes of each phase; raises Refusal, and what the model raises."""
    asked = ProbeQuestion(
        architecture=question.build(),
        workload=question.workload,
        layout=question.make_layout(),
        full_depth=True,
        deadline_s=600.0,
    )
    check_layout(asked.layout, asked.workload)
    setup = make_probe_setup(asked, question.read_config(), 0)
    with probe_recorded(question.build_whole()) if question.is_recorded else nullcontext():
        if goes_beyond_probes(asked.workload):
            return trace_step(setup, get_target_point(asked), asked.architecture)
        with grow_one_by_one():
            return trace_peaks(setup, get_target_point(asked))
