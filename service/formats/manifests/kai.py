"""KAI Scheduler: a queue, and shares of a GPU.

A job that needs less than half of a GPU has a share of one.

Shares are an option of its installation. Nothing there keeps a process within its share: an answer
at the upper end of its interval does (NVIDIA/KAI-Scheduler, ``docs/gpu-sharing/README.md``,
``pkg/common/constants/constants.go``).
"""

from service.formats.manifests.format import Document
from service.formats.manifests.shares import get_share_mib, is_shareable
from service.formats.manifests.workloads import (
    annotate,
    as_list,
    drop_gpus,
    label,
    list_pod_templates,
    render_workload,
)
from service.formats.renderings.job import Job, Launch, UnrenderableError

QUEUE = "default-queue"
"""The queue of KAI's own quick start (``docs/quickstart/default-queues.yaml``)."""
_QUEUE, _MEMORY = "kai.scheduler/queue", "gpu-memory"


def render_kai_objects(job: Job, launch: Launch) -> Document:
    """Return a job's objects in a queue of KAI.

    A pod with a share names no GPU of the device plugin: both are refused. Raises UnrenderableError
    where no image is known, and for a Job on several nodes
    (``pkg/podgrouper/podgrouper/plugins/job``).
    """
    if job.num_nodes > 1 and not job.is_server:
        message = (
            f"kai starts the pods of a Job one by one, and the {job.num_nodes} nodes of this start "
            "together: format volcano"
        )
        raise UnrenderableError(message)
    objects, workload = render_workload(job, launch)
    label(workload, {_QUEUE: job.options.queue or QUEUE})
    for template in list_pod_templates(workload):
        label(template, {_QUEUE: job.options.queue or QUEUE})
        template["spec"]["schedulerName"] = "kai-scheduler"
        if is_shareable(job):
            drop_gpus(template["spec"], job)
            annotate(template, {_MEMORY: str(get_share_mib(job))})
    return as_list([*objects, workload])
