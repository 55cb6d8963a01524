"""Kubernetes objects: a Job, a Deployment or a LeaderWorkerSet.

A Job is indexed where it spans nodes; a Deployment is of replicas, a LeaderWorkerSet of replicas
that span nodes.

batch/v1 Job with ``completionMode: Indexed`` and a headless Service (kubernetes.io, "Job with
Pod-to-Pod Communication"), leaderworkerset.x-k8s.io/v1; labels of NVIDIA's GPU feature discovery,
resources of its device plugin.
"""

from service.estimator.values.units import MIB
from service.estimator.values.workload import Engine, ServeWorkload
from service.formats.renderings.job import Job, Launch
from service.formats.renderings.text import render_shell_line

_PRODUCT, _MEMORY = "nvidia.com/gpu.product", "nvidia.com/gpu.memory"
_MOUNT = "/etc/launch"
_LABEL = "app.kubernetes.io/name"
_OTHER_RESOURCES = {"intel": "habana.ai/gaudi"}
"""Resources of device plugins that are not named ``<vendor>.com/gpu``."""


def render_kubernetes_objects(job: Job, launch: Launch) -> dict[str, object]:
    """Return a job's objects as a List for ``kubectl apply``."""
    is_multi_node = job.num_nodes > 1
    items: list[dict[str, object]] = []
    if launch.files:
        items.append(_render_config_map(job, launch))
    if isinstance(job.workload, ServeWorkload) and job.workload.engine is not Engine.TRANSFORMERS:
        items.append(
            _render_leader_worker_set(job, launch)
            if is_multi_node
            else _render_deployment(job, launch),
        )
    else:
        items += [_render_headless_service(job)] if is_multi_node else []
        items.append(_render_job(job, launch))
    return {"apiVersion": "v1", "kind": "List", "items": items}


def get_gpu_resource(job: Job) -> str:
    """Return the device plugin's resource of a GPU or MIG slice."""
    if job.mig_profile is not None:
        return f"nvidia.com/mig-{job.mig_profile}"
    return _OTHER_RESOURCES.get(job.device.vendor, f"{job.device.vendor}.com/gpu")


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
        **_render_pod(job, launch, _render_index_variables(job) if job.num_nodes > 1 else {}),
    }
    return pod | ({"subdomain": job.name} if job.num_nodes > 1 else {})


def _render_index_variables(job: Job) -> dict[str, str]:
    return {"HEAD_ADDRESS": f"{job.name}-0.{job.name}", "NODE_RANK": "${JOB_COMPLETION_INDEX}"}


def _render_headless_service(job: Job) -> dict[str, object]:
    spec = {"clusterIP": "None", "selector": {_LABEL: job.name}}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": job.name}, "spec": spec}


def _render_deployment(job: Job, launch: Launch) -> dict[str, object]:
    spec = {
        "replicas": job.replicas,
        "selector": {"matchLabels": {_LABEL: job.name}},
        "template": {"metadata": _render_labels(job), "spec": _render_pod(job, launch, {})},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": job.name},
        "spec": spec,
    }


def _render_leader_worker_set(job: Job, launch: Launch) -> dict[str, object]:
    variables = {"HEAD_ADDRESS": "${LWS_LEADER_ADDRESS}", "NODE_RANK": "${LWS_WORKER_INDEX}"}
    template = {"metadata": _render_labels(job), "spec": _render_pod(job, launch, variables)}
    spec = {
        "replicas": job.replicas,
        "leaderWorkerTemplate": {"size": job.num_nodes, "workerTemplate": template},
    }
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": job.name},
        "spec": spec,
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


def _render_pod(job: Job, launch: Launch, variables: dict[str, str]) -> dict[str, object]:
    count = str(job.gpus_per_node)
    # The shell sets them: what a controller adds to a pod's environment comes too late for $(NAME)
    # in it.
    exports = "".join(f"export {name}={value}; " for name, value in variables.items())
    command = exports + "exec " + render_shell_line(_mount_files(launch))
    container: dict[str, object] = {
        "name": "main",
        "command": ["sh", "-c", command],
        "env": [{"name": name, "value": value} for name, value in launch.environment.items()],
        "resources": {"limits": {get_gpu_resource(job): count}},
        "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}],  # noqa: S108 - where NCCL keeps its shared memory
    }
    volumes: list[dict[str, object]] = [{"name": "shm", "emptyDir": {"medium": "Memory"}}]
    if launch.files:
        container["volumeMounts"] = [
            *_to_list(container["volumeMounts"]),
            {"name": "launch", "mountPath": _MOUNT},
        ]
        volumes.append({"name": "launch", "configMap": {"name": job.name}})
    return {"containers": [container], "volumes": volumes, **_render_placement(job)}


def _to_list(value: object) -> list[object]:
    return list(value) if isinstance(value, list) else []


def _mount_files(launch: Launch) -> tuple[str, ...]:
    """Return the command with its files at their mounted paths."""
    return tuple(f"{_MOUNT}/{word}" if word in launch.files else word for word in launch.command)


def _render_placement(job: Job) -> dict[str, object]:
    product = job.gpu.get_first("gfd") if job.gpu is not None else None
    if job.nodes:
        return {"affinity": _render_affinity("kubernetes.io/hostname", "In", list(job.nodes))}
    if product is not None:
        return {"nodeSelector": {_PRODUCT: product}}
    if job.gpu is not None:
        return {}
    # The label counts MiB, and "Gt" is strict.
    min_mib = str(job.device.usable_bytes // MIB - 1)
    return {"affinity": _render_affinity(_MEMORY, "Gt", [min_mib])}


def _render_affinity(key: str, operator: str, values: list[str]) -> dict[str, object]:
    terms = [{"matchExpressions": [{"key": key, "operator": operator, "values": values}]}]
    return {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}
        },
    }
