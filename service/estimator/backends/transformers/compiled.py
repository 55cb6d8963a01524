"""Bounds of a step that inductor compiles."""

from dataclasses import replace

from service.estimator.memory.question import TrainQuestion
from service.estimator.values.result import Estimate, Interval

_NOTE = (
    "compile: what inductor's partitioner keeps for backward is counted; its buffers are its own "
    "choice, so that the intervals reach from gradients of logits written over the logits up to "
    "what the step needs without compile"
)


def bound_compiled(compiled: Estimate, eager: Estimate, question: TrainQuestion) -> Estimate:
    """Return a compiled step's estimate with wider intervals.

    They hold whatever inductor's buffers are: at best the gradient of the logits is written over
    them, at worst nothing is fused, a cut that the partitioner may choose as well.
    """
    batch, length = question.workload.rows
    width = question.workload.precision.compute_dtype.bytes_per_element
    logits = batch * length * question.model.vocab_size * width

    def widen(low: Interval, high: Interval) -> Interval:
        return Interval(max(0, low.low - logits), max(low.high, high.high))

    return replace(
        compiled,
        allocated_interval=widen(compiled.allocated_interval, eager.allocated_interval),
        reserved_interval=widen(compiled.reserved_interval, eager.reserved_interval),
        device_interval=widen(compiled.device_interval, eager.device_interval),
        warnings=(*compiled.warnings, _NOTE),
    )
