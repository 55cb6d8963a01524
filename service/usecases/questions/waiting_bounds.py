"""Bounds of questions about models that are being recorded; pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from service.estimator.memory.peft_methods import resolve_peft_method
from service.estimator.memory.setup import resolve_setup
from service.estimator.memory.static import build_static_memory
from service.estimator.values.errors import EstimatorError
from service.estimator.values.units import ceil_div
from service.estimator.values.workload import Framework, Quantization, ServeWorkload
from service.usecases.questions.fit import FitQuestion

STEP, SERVING = "optimizer_step", "serving"


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticBytes:
    """Bytes on each GPU that no recording changes, by component."""

    instant: str
    components: Mapping[str, int]

    @property
    def total_bytes(self) -> int:
        """Their sum, which the peak is not below."""
        return sum(self.components.values())


def count_static_bytes(question: FitQuestion) -> StaticBytes | None:
    """Return the static bytes of a question about weights alone.

    Of a training these are all bytes at the optimizer's step, of a serving replica the weights.
    None where they rest on what is not known yet.
    """
    workload, layout = question.workload, question.layout
    if isinstance(workload, ServeWorkload):
        return _count_served(question, workload) if _keeps_weights(workload) else None
    is_split = layout.tensor_parallel * layout.pipeline_parallel > 1
    if is_split or workload.framework is not Framework.TRANSFORMERS:
        return None
    try:
        resolved = resolve_peft_method(question.architecture, workload)
        memory = build_static_memory(resolve_setup(question.architecture, resolved, layout))
    except EstimatorError:
        # The question will be refused in these words when its model is there.
        return None
    parts = {name: num_bytes for name, num_bytes in memory.step.items() if num_bytes}
    return StaticBytes(instant=STEP, components=parts)


def _keeps_weights(workload: ServeWorkload) -> bool:
    """Return whether a replica holds all weights in their own format."""
    return workload.quantization is Quantization.NONE and not workload.cpu_offload_gb


def _count_served(question: FitQuestion, workload: ServeWorkload) -> StaticBytes:
    weights = question.architecture.weight_bytes(workload.weight_dtype)
    ranks = question.layout.tensor_parallel * question.layout.pipeline_parallel
    return StaticBytes(instant=SERVING, components={"weights": ceil_div(weights, ranks)})


def describe_bound(question: FitQuestion) -> dict[str, object] | None:
    """Return the bound on what each GPU holds."""
    counted = count_static_bytes(question)
    if counted is None:
        return None
    usable = question.device.usable_bytes
    return {
        "instant": counted.instant,
        "components": dict(counted.components),
        "at_least_bytes": counted.total_bytes,
        "usable_bytes": usable,
        "verdict": "does_not_fit" if counted.total_bytes > usable else None,
    }
