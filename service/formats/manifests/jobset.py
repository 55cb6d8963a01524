"""JobSet: a Job whose nodes are one set.

``jobset.x-k8s.io/v1alpha2`` (kubernetes-sigs/jobset, ``api/jobset/v1alpha2/jobset_types.go``): pods
are ``<set>-<job>-<job index>-<pod index>`` in a subdomain of the set's name.
"""

from service.formats.manifests.format import Document
from service.formats.manifests.kueue import place_in_queue
from service.formats.manifests.workloads import as_list, list_pod_templates, render_workload
from service.formats.renderings.job import Job, Launch
from service.formats.renderings.pods import render_pod

_NODES = "nodes"


def render_jobset(job: Job, launch: Launch) -> Document:
    """Return a set of one Job with a pod for each node.

    Raises UnrenderableError where no image is known.
    """
    objects, workload = render_workload(job, launch)
    pods = job.num_nodes * job.replicas
    (template,) = list_pod_templates(workload)
    if job.num_nodes > 1:
        variables = {
            "HEAD_ADDRESS": f"{job.name}-{_NODES}-0-0.{job.name}",
            "NODE_RANK": "${JOB_COMPLETION_INDEX}",
        }
        template["spec"] = {"restartPolicy": "Never", **render_pod(job, launch, variables)}
    nodes = {
        "backoffLimit": 0,
        "completionMode": "Indexed",
        "completions": pods,
        "parallelism": pods,
        "template": template,
    }
    result = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": job.name},
        "spec": {
            "network": {"enableDNSHostnames": True},
            "replicatedJobs": [{"name": _NODES, "replicas": 1, "template": {"spec": nodes}}],
        },
    }
    place_in_queue(job, result)
    return as_list([*(item for item in objects if item["kind"] != "Service"), result])
