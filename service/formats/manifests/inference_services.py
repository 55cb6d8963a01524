"""Operators that serve models: LLMInferenceService of KServe, a request of Dynamo.

``serving.kserve.io/v1alpha2`` (kserve/kserve, ``pkg/apis/serving/v1alpha2``): its own template,
``config/llmisvcconfig/config-llm-template.yaml``, starts vLLM in the container ``main``, reads the
checkpoint from ``/mnt/models`` and evaluates what it is given in a shell.

``nvidia.com/v1beta1`` (ai-dynamo/dynamo,
``deploy/operator/api/v1beta1/dynamographdeploymentrequest_types.go``): Dynamo searches its own
layout on the GPUs that it is given.
"""

import re
import shlex
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from service.estimator.values.units import MIB
from service.estimator.values.workload import Engine, ServeWorkload
from service.formats.manifests.format import Document
from service.formats.manifests.workloads import as_list, name_checkpoint
from service.formats.renderings.job import NVIDIA, Job, Launch, UnrenderableError
from service.formats.renderings.pods import render_pod

_SET_BY_KSERVE = frozenset({"--tensor-parallel-size"})
_ROUTER: dict[str, object] = {"route": {}, "gateway": {}, "scheduler": {}}
"""A route of the default gateway to the replica that its scheduler picks."""
_BACKENDS: Mapping[Engine, str] = MappingProxyType(
    {Engine.VLLM: "vllm", Engine.SGLANG: "sglang", Engine.TENSORRT_LLM: "trtllm"}
)
_SKUS = frozenset(
    {
        *("gb200", "gb10", "b300_sxm", "b200_sxm", "h200_sxm", "h100_sxm", "h100_pcie", "a100_sxm"),
        *("a100_pcie", "a30", "l40s", "l40", "l4", "v100_sxm", "v100_pcie", "t4"),
    }
)
"""NVIDIA's of the enumeration of ``gpuSku``; AMD's there name families, not GPUs."""


def render_llm_inference_service(job: Job, launch: Launch) -> Document:
    """Return an LLMInferenceService of vLLM.

    Raises UnrenderableError for other engines, and where an image or a checkpoint is not known.
    """
    workload = _get_serving(job)
    if workload.engine is not Engine.VLLM:
        message = "KServe's template starts vLLM; another engine's server: format kubernetes"
        raise UnrenderableError(message)
    checkpoint = name_checkpoint(job, launch)
    pod: Any = render_pod(job, launch, {})
    size = next(volume for volume in pod["volumes"] if volume["name"] == "shm")["emptyDir"]
    container = pod["containers"][0]
    for key in ("command", "ports", "readinessProbe", "volumeMounts"):
        container.pop(key)
    probe = container["startupProbe"]
    container |= {
        "args": _list_arguments(launch),
        "startupProbe": {key: probe[key] for key in ("periodSeconds", "failureThreshold")},
        # Images of vLLM run as root, which the template forbids.
        "securityContext": {**container["securityContext"], "runAsNonRoot": False},
    }
    spec: dict[str, object] = {
        "model": {"uri": f"hf://{checkpoint}", "name": checkpoint},
        "replicas": job.replicas,
        "parallelism": {"tensor": job.layout.tensor_parallel},
        "router": _ROUTER,
        "template": {**pod, "volumes": [{"name": "dshm", "emptyDir": size}]},
    }
    result = {
        "apiVersion": "serving.kserve.io/v1alpha2",
        "kind": "LLMInferenceService",
        "metadata": {"name": job.name},
        "spec": spec,
    }
    return as_list([result])


def render_dynamo_request(job: Job, launch: Launch) -> Document:
    """Return a DynamoGraphDeploymentRequest on the plan's GPUs.

    Raises UnrenderableError for engines and GPUs that Dynamo has no word for, and where no
    checkpoint is known.
    """
    workload = _get_serving(job)
    backend = _BACKENDS.get(workload.engine)
    if backend is None:
        message = (
            f"Dynamo serves with {', '.join(_BACKENDS.values())}, not {workload.engine.value}: "
            "format kubernetes"
        )
        raise UnrenderableError(message)
    hardware: dict[str, object] = {
        "vramMb": job.device.capacity_bytes // MIB,
        "totalGpus": job.layout.num_gpus,
        "numGpusPerNode": job.layout.gpus_per_node,
    }
    if job.gpu is not None:
        hardware = {"gpuSku": _name_sku(job), **hardware}
    spec = {
        "model": name_checkpoint(job, launch),
        "backend": backend,
        "hardware": hardware,
        "workload": {
            "isl": workload.prompt_tokens,
            "osl": max(workload.output_tokens, 1),
            "concurrency": workload.num_sequences * job.replicas,
        },
    }
    result = {
        "apiVersion": "nvidia.com/v1beta1",
        "kind": "DynamoGraphDeploymentRequest",
        "metadata": {"name": job.name},
        "spec": spec,
    }
    return as_list([result])


def _get_serving(job: Job) -> ServeWorkload:
    workload = job.workload
    if not isinstance(workload, ServeWorkload):
        message = "this is a job that ends, and a service does not: format kubernetes"
        raise UnrenderableError(message)
    return workload


def _list_arguments(launch: Launch) -> list[str]:
    """Return what vLLM is told beside checkpoint, port and tensor parallelism.

    Each word is quoted for the shell that evaluates all of them.
    """
    flags = launch.command[3:]
    before = ("", *flags)
    return [
        shlex.quote(word)
        for word, previous in zip(flags, before, strict=False)
        if word not in _SET_BY_KSERVE and previous not in _SET_BY_KSERVE
    ]


def _name_sku(job: Job) -> str:
    """Return Dynamo's word for a GPU."""
    name = job.device.name if job.gpu is None else job.gpu.name
    parts = re.fullmatch(r"([A-Z]+\d+S?)(?:-(SXM|PCIE)\d*)?(?:-\d+GB)?", name)
    word = "" if parts is None else "_".join(part for part in parts.groups() if part).casefold()
    if word not in _SKUS or job.vendor != NVIDIA:
        message = f"Dynamo has no word for {name}: its GPUs are {', '.join(sorted(_SKUS))}"
        raise UnrenderableError(message)
    return word
