"""Bounds of steps whose code inductor compiles, or Unsloth replaces."""

from collections.abc import Callable
from dataclasses import replace

from service.estimator.memory.question import TrainQuestion
from service.estimator.values.losses import Kernels, Loss
from service.estimator.values.result import Estimate, Interval
from service.estimator.values.workload import TrainWorkload

_NOTE = (
    "compile: what inductor's partitioner keeps for backward is counted; its buffers are its own "
    "choice, so that the intervals reach from gradients of logits written over the logits up to "
    "what the step needs without compile"
)


def bound_step(question: TrainQuestion, run: Callable[[TrainQuestion], Estimate]) -> Estimate:
    """Return the estimate of a step, as sure as its kernels are."""
    workload, estimate = question.workload, run(question)
    if workload.kernels is Kernels.UNSLOTH and question.corrections is None:
        return _bound_unsloth(estimate, run(replace(question, workload=_make_plain(workload))))
    if not workload.compile:
        return estimate
    eager = replace(question, workload=replace(workload, compile=False))
    return bound_compiled(estimate, run(eager), question)


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


_UNSLOTH_NOTE = (
    "kernels unsloth: the tensors of release 2026.10 are counted, with xFormers' attention where "
    "no flash-attn is named, and nobody has measured a GPU; the intervals reach up to "
    "transformers' own layers and 16-bit logits of all tokens, since earlier releases cut the loss "
    "by the memory that they found free"
)


def _make_plain(workload: TrainWorkload) -> TrainWorkload:
    """Return the step that nothing of Unsloth's but its checkpoints is in."""
    loss = workload.loss if workload.loss is not Loss.FUSED_LINEAR else Loss.FLASH_CROSS_ENTROPY
    return replace(workload, kernels=Kernels.TORCH, loss=loss, fp32_outputs=False)


def _bound_unsloth(estimate: Estimate, plain: Estimate) -> Estimate:
    """Return the estimate of Unsloth's step with wider intervals."""

    def widen(low: Interval, high: Interval) -> Interval:
        return Interval(low.low, max(low.high, high.high))

    return replace(
        estimate,
        allocated_interval=widen(estimate.allocated_interval, plain.allocated_interval),
        reserved_interval=widen(estimate.reserved_interval, plain.reserved_interval),
        device_interval=widen(estimate.device_interval, plain.device_interval),
        warnings=(*estimate.warnings, _UNSLOTH_NOTE),
    )
