"""QLoRA as clients run it, in place of other training."""

from dataclasses import replace

from service.estimator.values.layout import MAX_ZERO_STAGE, Layout
from service.estimator.values.precision import POLICIES
from service.estimator.values.workload import Lora, Method, TrainWorkload

_UNDER_AUTOCAST = {
    "bf16_mixed": POLICIES["bf16_autocast"],
    "fp16_mixed": POLICIES["fp16_autocast"],
}
"""Policies of adapters in place of those with masters of all weights."""


def make_qlora(workload: TrainWorkload, layout: Layout) -> TrainWorkload:
    """Return the training of adapters on the model in 4 bits.

    PEFT's ``prepare_model_for_kbit_training`` casts norms and head where no weights are sharded.
    """
    precision = workload.precision
    return replace(
        workload,
        method=Method.QLORA,
        lora=workload.lora or Lora(),
        precision=_UNDER_AUTOCAST.get(precision.name, precision),
        fp32_norms_and_head=layout.shards == 1 or layout.zero_stage < MAX_ZERO_STAGE,
    )
