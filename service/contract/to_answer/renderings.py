"""A candidate of a search as requests to schedulers and launchers."""

from collections.abc import Iterator, Sequence
from typing import Any

from service.catalog.gpus import list_gpus
from service.catalog.models import list_checkpoints
from service.contract.schemas.fields import JsonObject
from service.estimator.values.device import Device, parse_slice
from service.estimator.values.result import Estimate, Throughput
from service.estimator.values.workload import ServeWorkload, Workload
from service.formats.manifests.registry import render_format
from service.formats.renderings.job import GpuKind, GpuNames, Job, JobNames
from service.formats.renderings.render import render
from service.planner.cluster.placement import Placement
from service.planner.fit.candidates import Candidate
from service.planner.fit.verdict import shared_host_bytes
from service.planner.plans.offered import OfferPlan
from service.usecases.questions.fit import FitQuestion
from service.usecases.questions.how_many import HowManyQuestion
from service.usecases.questions.plans import PlanQuestion


def render_requests(
    question: PlanQuestion | HowManyQuestion,
    candidate: Candidate,
    device: Device,
    *,
    placement: Placement | None = None,
    offers: Sequence[OfferPlan] = (),
) -> JsonObject:
    """Return requests for these GPUs to schedulers and launchers.

    Those that ask Kubernetes, Slurm, Ray and SkyPilot for the GPUs, and those that start the
    framework on them; on the nodes of a cluster where the plan was placed on one. ``offers`` have
    the plans on all kinds of GPUs.
    """
    fit = FitQuestion(
        architecture=question.architecture,
        workload=candidate.workload,
        layout=candidate.layout,
        device=device,
    )
    job = make_job(
        question.names,
        fit,
        candidate.estimate,
        throughput=candidate.throughput,
        placement=placement,
        substitutes=tuple(_iter_substitutes(candidate, device, offers)),
    )
    return _add_formats(render(job), job, question.formats)


def make_job(
    names: JobNames,
    fit: FitQuestion,
    estimate: Estimate,
    *,
    throughput: Throughput | None = None,
    placement: Placement | None = None,
    substitutes: tuple[GpuKind, ...] = (),
) -> Job:
    """Return a fit as a job to render."""
    device = fit.device
    gpu, needed_bytes = get_gpu_names(device), get_needed_bytes(estimate, device)
    return Job(
        model_name=names.model_name,
        checkpoints=names.checkpoints,
        draft_checkpoints=_list_draft_checkpoints(fit.workload),
        model=fit.architecture,
        workload=fit.workload,
        layout=fit.layout,
        device=device,
        gpu=gpu,
        nodes=() if placement is None else placement.nodes,
        gpus_of_each=None if placement is None else placement.gpus_per_node,
        mig_profile=device.mig_profile,
        host_bytes_per_node=estimate.host_bytes_per_node,
        image=names.image,
        options=names.options,
        needed_bytes=needed_bytes,
        substitutes=substitutes,
        known_gpus=_list_known_gpus(needed_bytes) if gpu is None else (),
        prefill_share=_get_prefill_share(fit.workload, throughput),
    )


def _get_prefill_share(workload: Workload, throughput: Throughput | None) -> float | None:
    """Return what prompts take of the time of a replica's requests."""
    prefill_s = None if throughput is None else throughput.prefill_time_s
    if not isinstance(workload, ServeWorkload) or throughput is None or prefill_s is None:
        return None
    return prefill_s / (prefill_s + workload.output_tokens * throughput.step_time_s)


def get_needed_bytes(estimate: Estimate, device: Device) -> int:
    """Return what must fit on each GPU.

    It is the upper end of the answer's interval.
    """
    return estimate.device_interval.high + shared_host_bytes(estimate, device)


def _list_draft_checkpoints(workload: Workload) -> tuple[str, ...]:
    """Return ids on the hub of weights of a server's draft model."""
    draft = workload.speculative if isinstance(workload, ServeWorkload) else None
    return () if draft is None or draft.name is None else list_checkpoints(draft.name)


def _iter_substitutes(
    candidate: Candidate, device: Device, offers: Sequence[OfferPlan]
) -> Iterator[GpuKind]:
    """Yield the vendor's other GPUs for which the launch is a plan."""
    configuration = candidate.layout, candidate.workload
    for offered in offers:
        other, names = offered.offer.device, get_gpu_names(offered.offer.device)
        if names is None or other.name == device.name or other.vendor != device.vendor:
            continue
        for same in offered.plan.candidates:
            if (same.layout, same.workload) == configuration:
                needed = get_needed_bytes(same.estimate, other)
                yield GpuKind(device=other, names=names, needed_bytes=needed)
                break


def _list_known_gpus(needed_bytes: int) -> tuple[GpuKind, ...]:
    """Return the catalogue's GPUs, for a job that only told a memory."""
    devices = [entry.to_device() for entry in list_gpus()]
    return tuple(
        GpuKind(device=device, names=get_gpu_names(device), needed_bytes=needed_bytes)
        for device in devices
    )


def _add_formats(requests: JsonObject, job: Job, formats: Sequence[str]) -> JsonObject:
    """Return requests with the formats that they lack.

    A note says why one is null.
    """
    has_options = bool(job.options.list_set_names())
    lacking = [word for word in dict.fromkeys(formats) if has_options or requests.get(word) is None]
    renderings = [render_format(word, job) for word in lacking]
    notes = [
        f"{rendering.word}: {rendering.reason}"
        for rendering in renderings
        if rendering.reason is not None
    ]
    launch: Any = requests["launch"]
    return (
        requests
        | {rendering.word: rendering.document for rendering in renderings}
        | {"launch": launch | {"notes": [*launch["notes"], *notes]}}
    )


def get_gpu_names(device: Device) -> GpuNames | None:
    """Return the names that others use for a catalogue GPU.

    ``None`` for a GPU of which only the memory is known.
    """
    parts = parse_slice(device.name)
    name = device.name if parts is None else parts[0]
    entry = next((entry for entry in list_gpus() if entry.name == name), None)
    return (
        None
        if entry is None
        else GpuNames(
            name=entry.name,
            family=entry.family,
            aliases=entry.aliases,
            has_fabric=entry.nvlink_bytes_per_second is not None,
        )
    )
