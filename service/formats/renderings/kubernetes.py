"""Kubernetes objects: a Job, a Deployment or a LeaderWorkerSet.

A Job is indexed where it spans nodes; a Deployment is of replicas, a LeaderWorkerSet of replicas
that span nodes.

batch/v1 Job with ``completionMode: Indexed`` and a headless Service (kubernetes.io, "Job with
Pod-to-Pod Communication"), leaderworkerset.x-k8s.io/v1; labels of NVIDIA's GPU feature discovery,
resources of its device plugin.
"""

from service.formats.renderings.job import Job, Launch
from service.formats.renderings.pods import get_port, render_pod

_LABEL = "app.kubernetes.io/name"
_LEADER = {"leaderworkerset.sigs.k8s.io/worker-index": "0"}


def render_kubernetes_objects(job: Job, launch: Launch) -> dict[str, object]:
    """Return a job's objects as a List for ``kubectl apply``.

    Raises UnrenderableError where no image is known.
    """
    is_multi_node = job.num_nodes > 1
    items: list[dict[str, object]] = []
    if launch.files:
        items.append(_render_config_map(job, launch))
    if job.is_server:
        items.append(_render_service(job))
        items.append(
            _render_leader_worker_set(job, launch)
            if is_multi_node
            else _render_deployment(job, launch),
        )
    else:
        items += [_render_headless_service(job)] if is_multi_node else []
        items.append(_render_job(job, launch))
    return {"apiVersion": "v1", "kind": "List", "items": items}


def _render_job(job: Job, launch: Launch) -> dict[str, object]:
    spec: dict[str, object] = {
        "backoffLimit": 0,
        "template": {"metadata": _render_labels(job), "spec": _render_job_pod(job, launch)},
    }
    pods = job.num_nodes * job.replicas
    if pods > 1:
        spec = {"completionMode": "Indexed", "completions": pods, "parallelism": pods, **spec}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": job.name}, "spec": spec}


def _render_job_pod(job: Job, launch: Launch) -> dict[str, object]:
    pod = {
        "restartPolicy": "Never",
        **render_pod(job, launch, _render_index_variables(job) if job.num_nodes > 1 else {}),
    }
    return pod | ({"subdomain": job.name} if job.num_nodes > 1 else {})


def _render_index_variables(job: Job) -> dict[str, str]:
    return {"HEAD_ADDRESS": f"{job.name}-0.{job.name}", "NODE_RANK": "${JOB_COMPLETION_INDEX}"}


def _render_headless_service(job: Job) -> dict[str, object]:
    spec = {"clusterIP": "None", "selector": {_LABEL: job.name}}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": job.name}, "spec": spec}


def _render_service(job: Job) -> dict[str, object]:
    """Return the address of a server.

    That of its replicas, or of their leaders.
    """
    selector = {_LABEL: job.name} | (_LEADER if job.num_nodes > 1 else {})
    spec = {"selector": selector, "ports": [{"name": "http", "port": get_port(job)}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": job.name}, "spec": spec}


def _render_deployment(job: Job, launch: Launch) -> dict[str, object]:
    spec = {
        "replicas": job.replicas,
        "selector": {"matchLabels": {_LABEL: job.name}},
        "template": {"metadata": _render_labels(job), "spec": render_pod(job, launch, {})},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": job.name},
        "spec": spec,
    }


def render_leader_worker_objects(job: Job, launch: Launch) -> dict[str, object]:
    """Return a server's objects, its pods those of a LeaderWorkerSet.

    Raises UnrenderableError where no image is known.
    """
    items = [_render_config_map(job, launch)] if launch.files else []
    items += [_render_service(job), _render_leader_worker_set(job, launch)]
    return {"apiVersion": "v1", "kind": "List", "items": items}


def _render_leader_worker_set(job: Job, launch: Launch) -> dict[str, object]:
    """Return a set of replicas, each a group of pods.

    A group has as many pods as a replica has nodes. That of one node needs no word of where its
    leader is, and no worker's template but its own.
    """
    variables = {"HEAD_ADDRESS": "${LWS_LEADER_ADDRESS}", "NODE_RANK": "${LWS_WORKER_INDEX}"}
    spans_nodes = job.num_nodes > 1
    leader = {
        "metadata": _render_labels(job),
        "spec": render_pod(job, launch, variables if spans_nodes else {}),
    }
    worker = {
        "metadata": _render_labels(job),
        "spec": render_pod(job, launch, variables, is_worker=True),
    }
    group: dict[str, object] = {"size": job.num_nodes, "workerTemplate": leader}
    if spans_nodes:
        group |= {"leaderTemplate": leader, "workerTemplate": worker}
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": job.name},
        "spec": {"replicas": job.replicas, "leaderWorkerTemplate": group},
    }


def _render_config_map(job: Job, launch: Launch) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": job.name},
        "data": dict(launch.files),
    }


def _render_labels(job: Job) -> dict[str, object]:
    return {"labels": {_LABEL: job.name}}
