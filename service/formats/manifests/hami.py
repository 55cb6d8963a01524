"""HAMi: GPUs with a limit of their memory.

``nvidia.com/gpumem`` is MiB of each GPU of a container; a GPU's type is any part of the name that
its node registers (Project-HAMi/HAMi, ``pkg/device/nvidia/device.go``,
``GenerateResourceRequests`` and ``checkGPUtype``).
"""

from service.formats.manifests.format import Document
from service.formats.manifests.shares import fit_into_share, get_share_mib
from service.formats.manifests.workloads import (
    annotate,
    as_list,
    drop_gpu_labels,
    list_pod_templates,
    render_workload,
)
from service.formats.renderings.job import Job, Launch

_MEMORY, _KIND = "nvidia.com/gpumem", "nvidia.com/use-gputype"


def render_hami_objects(job: Job, launch: Launch) -> Document:
    """Return a job's objects, its GPUs limited to what it needs.

    Raises UnrenderableError where no image is known, and for a server that cannot stay within a
    limit.
    """
    objects, workload = render_workload(job, fit_into_share(job, launch))
    names = () if job.gpu is None else job.gpu.aliases.get("nvml", ())
    for template in list_pod_templates(workload):
        resources = template["spec"]["containers"][0]["resources"]
        for amounts in (resources["requests"], resources["limits"]):
            amounts[_MEMORY] = str(get_share_mib(job))
        drop_gpu_labels(template["spec"], job)
        if names:
            annotate(template, {_KIND: ",".join(names)})
    return as_list([*objects, workload])
