"""Memory of an evaluation between steps."""

from collections.abc import Sequence
from operator import attrgetter

from service.estimator.backends.pass_cache import PassCache
from service.estimator.memory.allocator.kernel_buffers import KernelBuffers, select_kernels
from service.estimator.memory.evaluated_batch import EvaluatedBatch
from service.estimator.memory.phase_peaks import PhasePeak
from service.estimator.memory.static import StaticMemory
from service.estimator.memory.training_pass import BatchNotes
from service.estimator.tape.ledger import find_highest_point
from service.estimator.values.result import EVALUATION
from service.estimator.values.workload import TrainWorkload

_UNTOLD = (
    "workload.evaluation.kept_batches is not said, and no logits are counted: a run with "
    "compute_metrics keeps those of eval_accumulation_steps batches on the GPU, or of every batch"
)


def list_evaluation_warnings(workload: TrainWorkload) -> tuple[str, ...]:
    """Return what an evaluation may need beyond what is counted."""
    evaluation = workload.evaluation
    return (_UNTOLD,) if evaluation is not None and evaluation.kept_batches is None else ()


def list_evaluation_peaks(
    batch: EvaluatedBatch | None,
    static_memory: StaticMemory,
    kernels: KernelBuffers | None,
    cache: PassCache,
) -> tuple[PhasePeak, ...]:
    """Return the highest bytes of an evaluation, if there is one."""
    if batch is None:
        return ()
    candidates = cache.get_training(static_memory.model, select_kernels(batch.config, kernels))
    points = tuple(point for section in candidates.values() for point in section)
    parts = dict(static_memory.evaluation)
    highest = find_highest_point(points, batch.values)
    for name, size in highest.evaluate_parts(batch.values).items():
        parts[name] = parts.get(name, 0) + size
    return (PhasePeak(EVALUATION, sum(parts.values()), parts),)


def select_notes(
    notes: BatchNotes, batch: EvaluatedBatch | None, peaks: Sequence[PhasePeak]
) -> BatchNotes:
    """Return the notes of the batch that decides the peak."""
    highest = max(peaks, key=attrgetter("allocated_bytes"))
    if batch is None or highest.name != EVALUATION:
        return notes
    return batch.notes._replace(warnings=notes.warnings)
