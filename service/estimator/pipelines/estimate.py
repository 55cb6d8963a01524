"""Memory estimate of a call of a pipeline on one GPU."""

from dataclasses import replace

from service.estimator.memory.allocator.slack import estimate_serving_slack
from service.estimator.memory.intervals.ends import LEVEL, PER_MILLION, get_residual_ends
from service.estimator.memory.overheads.overheads import Overhead, get_context_overhead
from service.estimator.pipelines.call import DECODING, Call, Phase, make_call
from service.estimator.pipelines.logs import Log
from service.estimator.pipelines.recording import RecordedPipeline
from service.estimator.pipelines.reserving import replay_call
from service.estimator.pipelines.sizes import list_rounded
from service.estimator.pipelines.workload import GenerateWorkload, PipelineOffload
from service.estimator.values.device import Device
from service.estimator.values.dtypes import DType
from service.estimator.values.result import (
    Basis,
    Component,
    Estimate,
    Instant,
    Interval,
    Stage,
)
from service.estimator.values.workload import Allocator

_KIND = "inference"
_REPLAYED = "replayed, more spare"
"""The kind of replays whose residuals widen the upper end: there are no readings of pipelines."""
_CUDNN = (
    "torch 2.13 ATen/native/cudnn/Conv_v8.cpp: cuDNN's plan decides; at most its input, weight and "
    "output in another layout"
)


def estimate_generation(
    pipeline: RecordedPipeline,
    workload: GenerateWorkload,
    device: Device,
    *,
    level: float = LEVEL,
) -> Estimate:
    """Return the memory of a call, at its highest phase.

    Raises InvalidInputError for sizes that the pipeline refuses and NotModelledError for what its
    recording does not have.
    """
    call = make_call(pipeline, workload)
    phases = call.list_phases()
    peak = max(phases, key=lambda phase: phase.allocated_bytes)
    bound = max(phase.bound_bytes for phase in phases)
    slack = _compute_slack(call, phases, peak, level)
    context = get_context_overhead(device.name, _KIND)
    reserved = peak.allocated_bytes + slack.point
    reserved_interval = Interval(
        peak.allocated_bytes + slack.low, max(bound, peak.allocated_bytes) + slack.high
    )
    return Estimate(
        num_gpus=1,
        allocated_bytes=peak.allocated_bytes,
        reserved_bytes=reserved,
        device_bytes=reserved + context.point,
        steady_bytes=_count_steady(call),
        allocated_interval=Interval(peak.allocated_bytes, max(bound, peak.allocated_bytes)),
        reserved_interval=reserved_interval,
        device_interval=Interval(
            reserved_interval.low + context.low, reserved_interval.high + context.high
        ),
        interval_level=level,
        interval_kind=_KIND,
        peak_instant=peak.instant,
        components=_list_components(peak, workload, slack, context),
        instants=tuple(_make_instant(phase) for phase in phases),
        stages=(Stage(0, peak.allocated_bytes, _count_steady(call)),),
        assumptions=tuple(_list_assumptions(call)),
        warnings=tuple(list_rounded(pipeline, workload)),
        host_bytes_per_node=_count_host(call),
    )


def _compute_slack(call: Call, phases: list[Phase], peak: Phase, level: float) -> Overhead:
    """Return reserved minus allocated.

    It is replayed over the phases that have an order of events; a ratio stands for others.
    """
    offload = call.workload.offloading
    ordered = [
        phase
        for phase in phases
        if isinstance(phase.recorded, Log) and not (phase.name == DECODING and call.splits_decoding)
    ]
    allocated, bound = peak.allocated_bytes, max(phase.bound_bytes for phase in phases)
    replayed = replay_call(ordered, offload, workspaces=False)
    highest = replay_call(ordered, offload, workspaces=True)
    _, upper = get_residual_ends(_REPLAYED, "reserved", level)
    slack = Overhead(
        point=max(replayed - allocated, 0),
        low=0,
        high=max(highest * upper // PER_MILLION - bound, 0),
        formula=f"{replayed:,} B in segments - {allocated:,} B",
        source="c10/cuda/CUDACachingAllocator.cpp replayed over this call's phases",
    )
    if len(ordered) == len(phases):
        return slack
    ratio = estimate_serving_slack(allocated, Allocator.DEFAULT, level=level)
    return ratio if ratio.point > slack.point else replace(slack, high=max(slack.high, ratio.high))


def _count_steady(call: Call) -> int:
    """Return the weights that stay on the GPU between calls."""
    if call.workload.offloading is not PipelineOffload.NONE:
        return 0
    return sum(
        component.count_bytes(call.get_loaded_dtype(component))
        for component in call.pipeline.components.values()
    )


def _count_host(call: Call) -> int:
    """Return the weights that the host keeps for the GPU."""
    if call.workload.offloading is PipelineOffload.NONE:
        return 0
    return sum(
        component.count_bytes(call.get_loaded_dtype(component))
        for component in call.pipeline.components.values()
    )


def _make_instant(phase: Phase) -> Instant:
    return Instant(
        name=phase.instant,
        allocated_bytes=phase.allocated_bytes,
        parts={
            "weights": phase.peak.weight_bytes + phase.idle_bytes,
            "activations": phase.peak.activation_bytes + phase.held_bytes,
        },
    )


def _list_components(
    peak: Phase, workload: GenerateWorkload, slack: Overhead, context: Overhead
) -> tuple[Component, ...]:
    """Return the parts of the device's bytes at the peak."""
    size = f"{workload.height} x {workload.width}"
    if workload.num_frames > 1:
        size += f" x {workload.num_frames} frames"
    parts = [
        Component(
            f"{component.name}_weights",
            component.count_bytes(dtype),
            Basis.EXACT,
            _describe_weights(component.num_parameters, dtype),
            "counted tensor by tensor, buffers included",
        )
        for component, dtype in peak.idle
    ]
    resident = (
        _describe_weights(peak.component.num_parameters, peak.dtype)
        if workload.offloading in {PipelineOffload.NONE, PipelineOffload.MODEL}
        else f"what {workload.offloading.value} offloading has on the GPU at this moment"
    )
    parts += [
        Component(
            f"{peak.component.name}_weights",
            peak.peak.weight_bytes,
            Basis.EXACT,
            resident,
            "counted tensor by tensor, buffers included",
        ),
        Component(
            "activations",
            peak.peak.activation_bytes,
            Basis.EXACT,
            f"recorded run of {peak.component.class_name} at {size}, batch {workload.batch}",
            "diffusers' own code on tensors without data",
        ),
        Component(
            "embeddings_and_latents",
            peak.held_bytes,
            Basis.EXACT,
            f"what the call holds during {peak.name}",
            "diffusers' own code on tensors without data",
        ),
        Component("allocator_slack", slack.point, Basis.FORMULA, slack.formula, slack.source),
        Component("device_context", context.point, Basis.MEASURED, context.formula, context.source),
    ]
    return tuple(part for part in parts if part.bytes or part.name == "activations")


def _describe_weights(parameters: int, dtype: DType) -> str:
    return f"{parameters / 1e9:.3f}e9 params in {dtype.value}, and buffers"


def _list_assumptions(call: Call) -> list[str]:
    pipeline = call.pipeline
    releases = ", ".join(f"{name} {release}" for name, release in pipeline.releases.items())
    lines = [
        f"recorded with {releases}; attention is PyTorch's SDPA",
        "a scheduler with Euler steps; one of several steps keeps a few more latents",
        f"the upper ends count workspaces of convolutions: {_CUDNN}",
    ]
    if call.upcasts:
        lines.append("the VAE is upcast to fp32 to decode, as its force_upcast says")
    if pipeline.makes_video and call.workload.offloading in {
        PipelineOffload.SEQUENTIAL,
        PipelineOffload.GROUP,
    }:
        lines.append(f"{DECODING}: the weights of its largest module count throughout")
    return lines
