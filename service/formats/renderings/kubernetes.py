"""Kubernetes objects: a Job, indexed where it spans nodes; a Deployment of replicas, or a LeaderWorkerSet of larger ones.

batch/v1 Job with ``completionMode: Indexed`` and a headless Service (kubernetes.io, "Job with Pod-to-Pod Communication"),
leaderworkerset.x-k8s.io/v1; labels of NVIDIA's GPU feature discovery, resources of its device plugin.
"""

from service.estimator.values.units import MIB
from service.estimator.values.workload import Engine, ServeWorkload
from service.formats.renderings.job import Job, Launch
from service.formats.renderings.text import shell_line

_PRODUCT, _MEMORY = "nvidia.com/gpu.product", "nvidia.com/gpu.memory"
_MOUNT = "/etc/launch"
_LABEL = "app.kubernetes.io/name"
_OTHER_RESOURCES = {"intel": "habana.ai/gaudi"}
"""What device plugins call a device where they do not say ``<vendor>.com/gpu``."""


def kubernetes_objects(job: Job, launch: Launch) -> dict[str, object]:
    """Return everything that one job needs, as a List that ``kubectl apply`` takes."""
    several = job.num_nodes > 1
    items: list[dict[str, object]] = []
    if launch.files:
        items.append(_config_map(job, launch))
    if isinstance(job.workload, ServeWorkload) and job.workload.engine is not Engine.TRANSFORMERS:
        items.append(_leader_workers(job, launch) if several else _deployment(job, launch))
    else:
        items += [_headless_service(job)] if several else []
        items.append(_job(job, launch))
    return {"apiVersion": "v1", "kind": "List", "items": items}


def gpu_resource(job: Job) -> str:
    """Return what the device plugin calls a GPU, or a MIG slice of one."""
    if job.mig_profile is not None:
        return f"nvidia.com/mig-{job.mig_profile}"
    return _OTHER_RESOURCES.get(job.device.vendor, f"{job.device.vendor}.com/gpu")


def _job(job: Job, launch: Launch) -> dict[str, object]:
    spec: dict[str, object] = {"backoffLimit": 0, "template": {"metadata": _labels(job), "spec": _job_pod(job, launch)}}
    pods = job.num_nodes * job.replicas
    if pods > 1:
        spec = {"completionMode": "Indexed", "completions": pods, "parallelism": pods, **spec}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": job.name}, "spec": spec}


def _job_pod(job: Job, launch: Launch) -> dict[str, object]:
    pod = {"restartPolicy": "Never", **_pod(job, launch, _indexed(job) if job.num_nodes > 1 else {})}
    return pod | ({"subdomain": job.name} if job.num_nodes > 1 else {})


def _indexed(job: Job) -> dict[str, str]:
    return {"HEAD_ADDRESS": f"{job.name}-0.{job.name}", "NODE_RANK": "${JOB_COMPLETION_INDEX}"}


def _headless_service(job: Job) -> dict[str, object]:
    spec = {"clusterIP": "None", "selector": {_LABEL: job.name}}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": job.name}, "spec": spec}


def _deployment(job: Job, launch: Launch) -> dict[str, object]:
    spec = {
        "replicas": job.replicas,
        "selector": {"matchLabels": {_LABEL: job.name}},
        "template": {"metadata": _labels(job), "spec": _pod(job, launch, {})},
    }
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": job.name}, "spec": spec}


def _leader_workers(job: Job, launch: Launch) -> dict[str, object]:
    where = {"HEAD_ADDRESS": "${LWS_LEADER_ADDRESS}", "NODE_RANK": "${LWS_WORKER_INDEX}"}
    template = {"metadata": _labels(job), "spec": _pod(job, launch, where)}
    spec = {"replicas": job.replicas, "leaderWorkerTemplate": {"size": job.num_nodes, "workerTemplate": template}}
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": job.name},
        "spec": spec,
    }


def _config_map(job: Job, launch: Launch) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": job.name}, "data": dict(launch.files)}


def _labels(job: Job) -> dict[str, object]:
    return {"labels": {_LABEL: job.name}}


def _pod(job: Job, launch: Launch, where: dict[str, str]) -> dict[str, object]:
    count = str(job.gpus_per_node)
    # The shell sets them: what a controller adds to a pod's environment comes too late for $(NAME) in it.
    known = "".join(f"export {name}={value}; " for name, value in where.items())
    command = known + "exec " + shell_line(_mounted(launch))
    container: dict[str, object] = {
        "name": "main",
        "command": ["sh", "-c", command],
        "env": [{"name": name, "value": value} for name, value in launch.environment.items()],
        "resources": {"limits": {gpu_resource(job): count}},
        "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}],  # noqa: S108 - where NCCL keeps its shared memory
    }
    volumes: list[dict[str, object]] = [{"name": "shm", "emptyDir": {"medium": "Memory"}}]
    if launch.files:
        container["volumeMounts"] = [*_listed(container["volumeMounts"]), {"name": "launch", "mountPath": _MOUNT}]
        volumes.append({"name": "launch", "configMap": {"name": job.name}})
    return {"containers": [container], "volumes": volumes, **_placed(job)}


def _listed(value: object) -> list[object]:
    return list(value) if isinstance(value, list) else []


def _mounted(launch: Launch) -> tuple[str, ...]:
    """Return the command with its files where the pod has them."""
    return tuple(f"{_MOUNT}/{word}" if word in launch.files else word for word in launch.command)


def _placed(job: Job) -> dict[str, object]:
    product = job.gpu.first("gfd") if job.gpu is not None else None
    if job.nodes:
        return {"affinity": _affinity("kubernetes.io/hostname", "In", list(job.nodes))}
    if product is not None:
        return {"nodeSelector": {_PRODUCT: product}}
    if job.gpu is not None:
        return {}
    # The label counts MiB, and "Gt" is strict.
    least = str(job.device.usable_bytes // MIB - 1)
    return {"affinity": _affinity(_MEMORY, "Gt", [least])}


def _affinity(key: str, operator: str, values: list[str]) -> dict[str, object]:
    terms = [{"matchExpressions": [{"key": key, "operator": operator, "values": values}]}]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
