"""KubeRay: a RayJob that runs a plan, a RayService that serves it.

``ray.io/v1`` (ray-project/kuberay, ``ray-operator/apis/ray/v1``).
Pods of a Ray cluster run Ray, which KubeRay starts in place of a command: their image has it. A job
is started on its nodes by a script that waits for all of them; a server is an application of Ray
Serve LLM.
"""

import json
from dataclasses import replace
from typing import Any

from service.estimator.values.workload import Engine, ServeWorkload
from service.formats.manifests.format import Document
from service.formats.manifests.kueue import place_in_queue
from service.formats.manifests.workloads import as_list, name_checkpoint
from service.formats.renderings.job import Job, Launch, UnrenderableError
from service.formats.renderings.pods import render_pod
from service.formats.renderings.schedulers import START_NODES, render_ray_program

_MOUNT = "/etc/launch"
_HEAD_RESOURCES = {"cpu": "2", "memory": "8Gi"}
"""Of a head that runs no work in KubeRay's samples (``ray-service.high-throughput-llm.yaml``)."""
_PLACED_BY_RAY = frozenset({"nnodes", "node_rank", "master_addr"})


def render_ray_job(job: Job, launch: Launch) -> Document:
    """Return a RayJob with a worker for each node.

    Raises UnrenderableError where no image is told.
    """
    _check_image(job, "Ray")
    pods = job.num_nodes * job.replicas
    # Files of the launch or not, the folder is mounted.
    mounted = {**launch.files, START_NODES: ""}
    worker: Any = render_pod(job, replace(launch, files=mounted), {})
    command = f"{worker['containers'][0].pop('command')[-1]}\n"
    bundles: list[dict[str, object]] = [{"GPU": job.gpus_per_node}] * job.num_nodes
    program = render_ray_program(job, command, bundles, folder=_MOUNT)
    head = _render_head(job, worker)
    head["containers"][0]["volumeMounts"] = [{"name": "launch", "mountPath": _MOUNT}]
    head["volumes"] = [{"name": "launch", "configMap": {"name": job.name}}]
    result = {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {"name": job.name},
        "spec": {
            "entrypoint": f"python {_MOUNT}/{START_NODES}",
            "shutdownAfterJobFinishes": True,
            "rayClusterSpec": _render_cluster(head, worker, pods),
        },
    }
    place_in_queue(job, result)
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": job.name},
        "data": {**launch.files, **program},
    }
    return as_list([config, result])


def render_ray_service(job: Job, launch: Launch) -> Document:
    """Return a RayService of vLLM's replicas.

    Raises UnrenderableError for other engines, and where an image or a checkpoint is not told.
    """
    workload = job.workload
    if not isinstance(workload, ServeWorkload) or workload.engine is not Engine.VLLM:
        message = "Ray Serve LLM runs vLLM; another engine's server: format kubernetes"
        raise UnrenderableError(message)
    _check_image(job, "Ray Serve LLM")
    checkpoint = name_checkpoint(job, launch)
    worker: Any = render_pod(job, launch, {})
    container = worker["containers"][0]
    for key in ("command", "ports", "startupProbe", "readinessProbe"):
        container.pop(key)
    keywords = _read_engine_keywords(launch.command[3:])
    config = {
        "model_loading_config": {"model_id": job.model_name, "model_source": checkpoint},
        "engine_kwargs": keywords,
        "deployment_config": {"num_replicas": job.replicas},
    }
    application = {"name": job.name, "route_prefix": "/", **_render_builder(keywords, config)}
    cluster = _render_cluster(_render_head(job, worker), worker, job.num_nodes * job.replicas)
    result = {
        "apiVersion": "ray.io/v1",
        "kind": "RayService",
        "metadata": {"name": job.name},
        "spec": {
            "serveConfigV2": json.dumps({"applications": [application]}, indent=2) + "\n",
            "rayClusterConfig": cluster,
        },
    }
    place_in_queue(job, result)
    return as_list([result])


def _render_builder(keywords: dict[str, object], config: dict[str, object]) -> dict[str, object]:
    """Return what builds an application of Ray Serve LLM.

    Ranks of one engine that share its experts are a group of replicas, which another builder
    starts together (ray 2.60, ``ray/serve/llm/__init__.py``).
    """
    if "data_parallel_size" in keywords:
        return {"import_path": "ray.serve.llm:build_dp_openai_app", "args": {"llm_config": config}}
    return {"import_path": "ray.serve.llm:build_openai_app", "args": {"llm_configs": [config]}}


def _check_image(job: Job, needed: str) -> None:
    if job.image is None:
        message = (
            f"the image of these pods has {needed} beside what they run, and no published one of "
            "the evaluated release is known: say yours"
        )
        raise UnrenderableError(message)


def _render_head(job: Job, worker: Any) -> dict[str, Any]:  # noqa: ANN401 - a pod's spec
    """Return the pod of a head, which runs no work."""
    container = worker["containers"][0]
    return {
        "containers": [
            {
                "name": "ray-head",
                "image": job.image,
                "env": container["env"],
                "resources": {"requests": _HEAD_RESOURCES, "limits": _HEAD_RESOURCES},
                "securityContext": container["securityContext"],
            }
        ],
    }


def _render_cluster(head: dict[str, Any], worker: dict[str, Any], pods: int) -> dict[str, object]:
    worker["containers"][0]["name"] = "ray-worker"
    group = {
        "groupName": "nodes",
        "replicas": pods,
        "minReplicas": pods,
        "maxReplicas": pods,
        "rayStartParams": {},
        "template": {"spec": worker},
    }
    return {
        "headGroupSpec": {"rayStartParams": {"num-cpus": "0"}, "template": {"spec": head}},
        "workerGroupSpecs": [group],
    }


def _read_engine_keywords(flags: tuple[str, ...]) -> dict[str, object]:
    """Return a command's flags as keywords of vLLM's engine.

    Ray places the ranks itself.
    """
    keywords: dict[str, object] = {}
    for flag, following in zip(flags, (*flags[1:], "--"), strict=True):
        if flag.startswith("--"):
            name = flag.removeprefix("--").replace("-", "_")
            keywords[name] = True if following.startswith("--") else _read_scalar(following)
    spans_nodes = "nnodes" in keywords
    placed = {name: value for name, value in keywords.items() if name not in _PLACED_BY_RAY}
    return placed | ({"distributed_executor_backend": "ray"} if spans_nodes else {})


def _read_scalar(word: str) -> object:
    try:
        return json.loads(word)
    except ValueError:
        return word
