"""How long one run is expected to take, so that a plan keeps to its deadline."""

from service.estimator.workload import Checkpointing, ServeWorkload
from worker.probes.plan import NUM_MICRO_BATCHES, Host, Point, Question
from worker.probes.stack import keep

STEP_BYTES_PER_PARAMETER = 60
"""What a foreach AdamW step reads and writes per parameter."""
_SERVE_PASSES = 3
"""Prefill, the pass that fills the cache to its last length, and the decode of one token."""


def point_seconds(point: Point, question: Question, host: Host) -> float:
    """Return the seconds of one probe: 6 FLOP per parameter and token to train on it, 2 to serve it (arXiv:2001.08361)."""
    model, workload = keep(question.architecture, point.layers), question.workload
    counts = model.parameter_counts()
    multiplied = counts.active - (0 if model.tied else counts.embedding)
    if isinstance(workload, ServeWorkload):
        return _SERVE_PASSES * point.num_layers * _inverse(host.layer_steps_per_second) + (
            2 * multiplied * point.num_tokens * _inverse(host.flops_per_second)
        )
    passes = 8 if workload.activation_checkpointing is Checkpointing.FULL else 6
    update_s = 0.0 if workload.lora else counts.total * STEP_BYTES_PER_PARAMETER * _inverse(host.state_bytes_per_second)
    num_micro_batches = min(NUM_MICRO_BATCHES, workload.gradient_accumulation_steps)
    micro_batch_s = passes * multiplied * point.num_tokens * _inverse(host.flops_per_second)
    micro_batch_s += point.num_layers * _inverse(host.layer_steps_per_second)
    return host.num_steps * (num_micro_batches * micro_batch_s + update_s)


def _inverse(per_second: float | None) -> float:
    return 0.0 if per_second is None else 1 / per_second
