"""Estimates of training on the transformers library.

They have corrected phase peaks, components of the peak, checkpoint and warnings.
"""

from functools import partial
from operator import attrgetter

from service.estimator.memory.allocator.replay import ReplayResult
from service.estimator.memory.answer.assemble import PartialEstimate
from service.estimator.memory.answer.explain import build_training_components
from service.estimator.memory.image_inputs import list_image_warnings
from service.estimator.memory.lengths import list_length_assumptions
from service.estimator.memory.model_limits import list_attention_warnings
from service.estimator.memory.offloading import count_ranks_per_node
from service.estimator.memory.optimizers.table import get_optimizer
from service.estimator.memory.phase_peaks import correct_phase_peaks
from service.estimator.memory.states import TrainedParameters, count_saved_state_bytes
from service.estimator.memory.static import StaticMemory
from service.estimator.memory.timeline import Peak, Timeline
from service.estimator.model.architecture import Architecture
from service.estimator.values.corrections import Corrections
from service.estimator.values.layout import Layout
from service.estimator.values.result import CheckpointBytes, Instant
from service.estimator.values.workload import TrainWorkload


def outline_training(
    static_memory: StaticMemory, workload: TrainWorkload, layout: Layout, peak: Peak
) -> PartialEstimate:
    """Return the numbers of one rank's peak, unexplained."""
    num_gpus = layout.num_gpus
    return PartialEstimate(
        num_gpus=num_gpus,
        linked_gpus=num_gpus,
        instants=(),
        peak=Instant(peak.name, peak.allocated_bytes),
        steady_bytes=peak.steady_bytes,
        components=tuple,
        approximate=static_memory.model.spec.approximate,
        gathers=static_memory.gathers,
        kind=_get_kind(workload, static_memory),
        allocator=workload.allocator,
        host_bytes_per_node=peak.host_bytes * count_ranks_per_node(layout)
        if peak.host_bytes
        else 0,
        host_memory_bytes=layout.host_memory_bytes,
        nvme_bytes_per_node=static_memory.nvme_bytes * count_ranks_per_node(layout),
        nvme_bytes=layout.nvme_bytes,
    )


def explain_training(
    model: Architecture,
    workload: TrainWorkload,
    layout: Layout,
    timeline: Timeline,
    corrections: Corrections | None,
    replayed: ReplayResult | None = None,
) -> PartialEstimate:
    """Return the partial estimate of one rank's timeline.

    Corrections that were measured are added to its instants.
    """
    tokens = workload.micro_batch_size * workload.sequence_length
    peaks = correct_phase_peaks(timeline.peaks, corrections, tokens)
    peak = max(peaks, key=attrgetter("allocated_bytes"))
    return PartialEstimate(
        num_gpus=layout.num_gpus,
        linked_gpus=layout.num_gpus,
        instants=tuple(
            [Instant(moment.name, moment.allocated_bytes, moment.parts) for moment in peaks]
        ),
        peak=Instant(peak.name, peak.allocated_bytes),
        steady_bytes=timeline.steady_bytes,
        components=partial(
            build_training_components, model, workload, layout, timeline.trained, peak
        ),
        phases=tuple([Instant(name, bytes_) for name, bytes_ in timeline.phases]),
        checkpoint=_count_checkpoint_bytes(workload, timeline.trained),
        approximate=model.spec.approximate,
        gathers=timeline.static_memory.gathers,
        kind=_get_kind(workload, timeline.static_memory),
        allocator=workload.allocator,
        replayed=replayed,
        host_bytes_per_node=timeline.host_bytes * count_ranks_per_node(layout)
        if timeline.host_bytes
        else 0,
        host_memory_bytes=layout.host_memory_bytes,
        nvme_bytes_per_node=timeline.static_memory.nvme_bytes * count_ranks_per_node(layout),
        nvme_bytes=layout.nvme_bytes,
        warnings=(
            *_list_warnings(workload, layout),
            *list_attention_warnings(model, workload.attention),
            *list_image_warnings(model, workload),
            *list_length_assumptions(model, workload),
        ),
    )


def _get_kind(workload: TrainWorkload, static_memory: StaticMemory) -> str:
    if workload.lora is not None:
        return "adapters"
    return "sharded" if static_memory.gathers else "training"


def _count_checkpoint_bytes(workload: TrainWorkload, trained: TrainedParameters) -> CheckpointBytes:
    """Return the bytes of a checkpoint of the whole job.

    It has the trained weights, the optimizer's states and master copies.
    """
    precision = workload.precision
    master = (
        precision.master_dtype.bytes_per_element
        if precision.master_dtype is not None and workload.lora is None
        else 0
    )
    return CheckpointBytes(
        weights=trained.trained * trained.trained_dtype.bytes_per_element,
        optimizer=count_saved_state_bytes(trained, get_optimizer(workload.optimizer))
        + trained.trained * master,
    )


def _list_warnings(workload: TrainWorkload, layout: Layout) -> tuple[str, ...]:
    warnings = []
    if layout.zero_stage and layout.shards == 1:
        warnings.append(f"zero_stage {layout.zero_stage} has no effect on one data-parallel rank")
    if workload.gradient_clipping:
        warnings.append(
            "gradient_clipping adds nothing to the peak: its norms are a few bytes per tensor"
        )
    return tuple(warnings)
