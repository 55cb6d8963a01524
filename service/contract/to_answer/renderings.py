"""A candidate of a plan as requests to schedulers and launchers."""

from service.catalog.gpus import list_gpus
from service.catalog.models import checkpoints_of
from service.contract.schemas.fields import JsonObject
from service.estimator.values.device import Device, parse_slice
from service.estimator.values.layout import Layout
from service.estimator.values.workload import ServeWorkload, Workload
from service.formats.renderings.job import GpuNames, Job
from service.formats.renderings.render import render
from service.planner.cluster.placement import Placement
from service.usecases.questions.plans import PlanQuestion


def requests_of(
    asked: PlanQuestion,
    configuration: tuple[Workload, Layout],
    device: Device,
    *,
    placement: Placement | None = None,
) -> JsonObject:
    """Return what asks Kubernetes, Slurm, Ray and SkyPilot for these GPUs, and what starts the framework on them.

    On the nodes of a cluster that it was placed on, where it was.
    """
    workload, layout = configuration
    draft = workload.speculative if isinstance(workload, ServeWorkload) else None
    return render(
        Job(
            model_name=asked.model_name,
            checkpoints=asked.checkpoints,
            draft_checkpoints=() if draft is None or draft.name is None else checkpoints_of(draft.name),
            model=asked.architecture,
            workload=workload,
            layout=layout,
            device=device,
            gpu=gpu_names(device),
            nodes=() if placement is None else placement.nodes,
            gpus_of_each=None if placement is None else placement.gpus_per_node,
            mig_profile=device.mig_profile,
        )
    )


def gpu_names(device: Device) -> GpuNames | None:
    """Return what others call a GPU of the catalogue; None for one of which only the memory is known."""
    parts = parse_slice(device.name)
    name = device.name if parts is None else parts[0]
    entry = next((entry for entry in list_gpus() if entry.name == name), None)
    return None if entry is None else GpuNames(name=entry.name, family=entry.family, aliases=entry.aliases)
