"""Pod of a job: its image, command, resources, probes and place.

Labels of NVIDIA's GPU feature discovery, resources of its device plugin and of other vendors'.
"""

from service.estimator.backends.registry import get_backend
from service.estimator.values.units import MIB, ceil_div
from service.estimator.values.workload import Engine, ServeWorkload
from service.formats.renderings.host_needs import HostNeeds, compute_host_needs
from service.formats.renderings.images import explain_missing_image, find_image
from service.formats.renderings.job import Job, Launch, UnrenderableError
from service.formats.renderings.text import render_shell_line

_PRODUCT, _MEMORY = "nvidia.com/gpu.product", "nvidia.com/gpu.memory"
_MOUNT = "/etc/launch"
_OTHER_RESOURCES = {"intel": "habana.ai/gaudi"}
"""Resources of device plugins that are not named ``<vendor>.com/gpu``."""
_LOCAL_HOSTS = frozenset({Engine.SGLANG, Engine.TENSORRT_LLM, Engine.LLAMA_CPP})
"""Servers that listen on 127.0.0.1 unless told, where no probe reaches them."""
_PERIOD_S, _STARTUP_S, _SLOWEST_BYTES_PER_S = 10, 600, 125_000_000
"""Between two probes; for what a server does beside loading (compiling, graphs); and 1 Gbit/s, the
slowest network that weights are fetched over.
"""


def render_pod(
    job: Job, launch: Launch, variables: dict[str, str], *, is_worker: bool = False
) -> dict[str, object]:
    """Return the spec of one pod.

    ``variables`` are set by the shell; a server's worker answers no requests. Raises
    UnrenderableError where no image is known.
    """
    needs = compute_host_needs(job)
    size = _format_mib(needs.shm_bytes)
    volumes: list[dict[str, object]] = [
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": size}}
    ]
    mounts = [{"name": "shm", "mountPath": "/dev/shm"}]  # noqa: S108 - where NCCL keeps its shared memory
    if launch.files:
        volumes.append({"name": "launch", "configMap": {"name": job.name}})
        mounts.append({"name": "launch", "mountPath": _MOUNT})
    return {
        "containers": [
            _render_container(job, launch, variables, needs, mounts, is_worker=is_worker)
        ],
        "volumes": volumes,
        "automountServiceAccountToken": False,
        "tolerations": [
            {"key": _get_taint(job), "operator": "Exists", "effect": "NoSchedule"},
        ],
        **_render_placement(job),
    }


def get_port(job: Job) -> int | None:
    """Return the port of a server; None of a job that ends."""
    workload = job.workload
    return (
        get_backend(workload.engine).default_port if isinstance(workload, ServeWorkload) else None
    )


def get_gpu_resource(job: Job) -> str:
    """Return the device plugin's resource of a GPU or MIG slice."""
    if job.mig_profile is not None:
        return f"nvidia.com/mig-{job.mig_profile}"
    return _get_taint(job)


def _get_taint(job: Job) -> str:
    """Return the key of the taint that nodes with GPUs carry."""
    return _OTHER_RESOURCES.get(job.vendor, f"{job.vendor}.com/gpu")


def _render_container(
    job: Job,
    launch: Launch,
    variables: dict[str, str],
    needs: HostNeeds,
    mounts: list[dict[str, str]],
    *,
    is_worker: bool,
) -> dict[str, object]:
    image = find_image(job)
    if image is None:
        raise UnrenderableError(explain_missing_image(job))
    # The shell sets them: what a controller adds to a pod's environment comes too late for $(NAME)
    # in it.
    exports = "".join(f"export {name}={value}; " for name, value in variables.items())
    command = (*_mount_files(launch), *_list_pod_flags(job, is_worker=is_worker))
    return {
        "name": "main",
        "image": image,
        "command": ["sh", "-c", exports + "exec " + render_shell_line(command)],
        "env": [{"name": name, "value": value} for name, value in launch.environment.items()],
        "resources": _render_resources(job, needs),
        "volumeMounts": mounts,
        "securityContext": {"allowPrivilegeEscalation": False},
        **({} if is_worker else _render_probes(job)),
    }


def _render_resources(job: Job, needs: HostNeeds) -> dict[str, object]:
    """Return what the pod asks of a node.

    What is kept in ``/dev/shm`` counts as the pod's memory, and is part of what it asks for. GPUs
    cannot be overcommitted: their limit is their request (kubernetes.io, "Extended resources").
    """
    gpus = {get_gpu_resource(job): str(job.gpus_per_node)}
    host = {"cpu": str(needs.cpus), "memory": _format_mib(needs.memory_bytes)}
    return {"requests": host | gpus, "limits": gpus}


def _list_pod_flags(job: Job, *, is_worker: bool) -> tuple[str, ...]:
    """Return what a server's command says in a pod alone."""
    if not isinstance(job.workload, ServeWorkload):
        return ()
    if job.workload.engine in _LOCAL_HOSTS:
        return ("--host", "0.0.0.0")  # noqa: S104 - a pod's address is told when it starts
    return list_worker_flags(job) if is_worker else ()


def list_worker_flags(job: Job) -> tuple[str, ...]:
    """Return what a command says on nodes behind the first.

    vLLM, docs/serving/parallelism_scaling.md: a node without a server of its own.
    """
    workload = job.workload
    is_vllm = isinstance(workload, ServeWorkload) and workload.engine is Engine.VLLM
    return ("--headless",) if is_vllm and job.num_nodes > 1 else ()


def _render_probes(job: Job) -> dict[str, object]:
    """Return the probes of a server, which all answer ``GET /health``.

    It starts within the time in which as many bytes as its GPUs hold come over the slowest network.
    """
    port = get_port(job)
    if port is None:
        return {}
    startup_s = _STARTUP_S + ceil_div(job.gpus * job.device.usable_bytes, _SLOWEST_BYTES_PER_S)
    probe = {"httpGet": {"path": "/health", "port": port}, "periodSeconds": _PERIOD_S}
    return {
        "ports": [{"name": "http", "containerPort": port}],
        "startupProbe": probe | {"failureThreshold": ceil_div(startup_s, _PERIOD_S)},
        "readinessProbe": probe,
    }


def _format_mib(num_bytes: int) -> str:
    return f"{ceil_div(num_bytes, MIB)}Mi"


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
