"""The answer to a training question: corrected moments, components of the peak, checkpoint, warnings."""

from functools import partial
from operator import attrgetter

from service.estimator.memory.allocator.replay import Replayed
from service.estimator.memory.answer.assemble import Draft
from service.estimator.memory.answer.explain import training_components
from service.estimator.memory.image_inputs import image_warnings
from service.estimator.memory.lengths import lengths_assumed
from service.estimator.memory.model_limits import attention_warnings
from service.estimator.memory.offloading import ranks_per_node
from service.estimator.memory.optimizers.table import optimizer_named
from service.estimator.memory.phase_peaks import all_corrected
from service.estimator.memory.states import TrainedParameters, saved_states
from service.estimator.memory.static import Footing
from service.estimator.memory.timeline import Peak, Timeline
from service.estimator.model.architecture import Architecture
from service.estimator.values.corrections import Corrections
from service.estimator.values.layout import Layout
from service.estimator.values.result import CheckpointBytes, Instant
from service.estimator.values.workload import TrainWorkload


def outline_training(footing: Footing, workload: TrainWorkload, layout: Layout, peak: Peak) -> Draft:
    """Return the numbers of one rank's peak, and nothing that explains them."""
    num_gpus = layout.num_gpus
    return Draft(
        num_gpus=num_gpus,
        linked_gpus=num_gpus,
        instants=(),
        peak=Instant(peak.name, peak.allocated_bytes),
        steady_bytes=peak.steady_bytes,
        components=tuple,
        approximate=footing.model.spec.approximate,
        gathers=footing.gathers,
        kind=_kind(workload, footing),
        allocator=workload.allocator,
        host_bytes_per_node=peak.host_bytes * ranks_per_node(layout) if peak.host_bytes else 0,
        host_memory_bytes=layout.host_memory_bytes,
        nvme_bytes_per_node=footing.nvme_bytes * ranks_per_node(layout),
        nvme_bytes=layout.nvme_bytes,
    )


def explain_training(
    model: Architecture,
    workload: TrainWorkload,
    layout: Layout,
    timeline: Timeline,
    corrections: Corrections | None,
    replayed: Replayed | None = None,
) -> Draft:
    """Return the answer of one rank's timeline, with what was measured added to its instants."""
    tokens = workload.micro_batch_size * workload.sequence_length
    moments = all_corrected(timeline.moments, corrections, tokens)
    peak = max(moments, key=attrgetter("allocated_bytes"))
    return Draft(
        num_gpus=layout.num_gpus,
        linked_gpus=layout.num_gpus,
        instants=tuple([Instant(moment.name, moment.allocated_bytes, moment.parts) for moment in moments]),
        peak=Instant(peak.name, peak.allocated_bytes),
        steady_bytes=timeline.steady_bytes,
        components=partial(training_components, model, workload, layout, timeline.trained, peak),
        phases=tuple([Instant(name, bytes_) for name, bytes_ in timeline.phases]),
        checkpoint=_checkpoint(workload, timeline.trained),
        approximate=model.spec.approximate,
        gathers=timeline.footing.gathers,
        kind=_kind(workload, timeline.footing),
        allocator=workload.allocator,
        replayed=replayed,
        host_bytes_per_node=timeline.host_bytes * ranks_per_node(layout) if timeline.host_bytes else 0,
        host_memory_bytes=layout.host_memory_bytes,
        nvme_bytes_per_node=timeline.footing.nvme_bytes * ranks_per_node(layout),
        nvme_bytes=layout.nvme_bytes,
        warnings=(
            *_warnings(workload, layout),
            *attention_warnings(model, workload.attention),
            *image_warnings(model, workload),
            *lengths_assumed(model, workload),
        ),
    )


def _kind(workload: TrainWorkload, footing: Footing) -> str:
    if workload.lora is not None:
        return "adapters"
    return "sharded" if footing.gathers else "training"


def _checkpoint(workload: TrainWorkload, trained: TrainedParameters) -> CheckpointBytes:
    """Return what a checkpoint of the whole job holds: the trained weights, the optimizer's states and master copies."""
    precision = workload.precision
    master = precision.master_dtype.bytes_per_element if precision.master_dtype is not None and workload.lora is None else 0
    return CheckpointBytes(
        weights=trained.trained * trained.trained_dtype.bytes_per_element,
        optimizer=saved_states(trained, optimizer_named(workload.optimizer)) + trained.trained * master,
    )


def _warnings(workload: TrainWorkload, layout: Layout) -> tuple[str, ...]:
    warnings = []
    if layout.zero_stage and layout.shards == 1:
        warnings.append(f"zero_stage {layout.zero_stage} has no effect on one data-parallel rank")
    if workload.gradient_clipping:
        warnings.append("gradient_clipping adds nothing to the peak: its norms are a few bytes per tensor")
    return tuple(warnings)
