"""The estimator's bytes of a question, without torch."""

from service.estimator.estimate import estimate
from service.estimator.values.device import Device
from service.estimator.values.workload import TrainWorkload
from tests.accuracy.search.questions import Question

_HUGE = Device(name="unbounded", capacity_bytes=2**60, usable_bytes=2**60)
_PHASES = {"forward": "forward_pass", "backward": "backward_pass", "optimizer": "optimizer_step"}


def estimate_peaks(question: Question) -> dict[str, int]:
    """Return the estimator's bytes of each phase; raises EstimatorError."""
    model, workload, layout = question.build(), question.workload, question.make_layout()
    answer = estimate(model, workload, layout=layout, device=_HUGE)
    if isinstance(workload, TrainWorkload):
        phases = {phase.name: phase.allocated_bytes for phase in answer.phases}
        return {name: phases[phase] for name, phase in _PHASES.items()}
    peaks = {instant.name: instant.allocated_bytes for instant in answer.instants}
    return {name: peaks[name] for name in ("prefill", "decode") if name in peaks}
