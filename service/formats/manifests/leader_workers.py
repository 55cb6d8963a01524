"""LeaderWorkerSet: replicas of a server, on one node each or on several.

``leaderworkerset.x-k8s.io/v1`` (kubernetes-sigs/lws, ``api/leaderworkerset/v1``).
"""

from service.formats.manifests.format import Document
from service.formats.manifests.workloads import as_list, render_workload
from service.formats.renderings.job import Job, Launch
from service.formats.renderings.kubernetes import render_leader_worker_set


def render_leader_workers(job: Job, launch: Launch) -> Document:
    """Return a server's objects, its pods those of a LeaderWorkerSet.

    Raises UnrenderableError where no image is known.
    """
    objects, _workload = render_workload(job, launch)
    return as_list([*objects, render_leader_worker_set(job, launch)])
