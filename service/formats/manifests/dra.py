"""Claims of Kubernetes' dynamic resource allocation.

A ResourceClaimTemplate of ``resource.k8s.io/v1`` asks for devices by the bytes of the answer, and
the job's pods have a claim of it each. GPUs on which the same launch is a plan follow in their
order. Few GPUs that reach each other over PCIe are asked for below one root of it, and where no
node has that, anywhere on a node (kubernetes/api, ``resource/v1/types.go``, ``firstAvailable`` and
``matchAttribute``).
"""

import re
from typing import Any

from service.formats.manifests.device_selectors import select_kind, select_memory
from service.formats.manifests.format import Document
from service.formats.manifests.workloads import (
    as_list,
    drop_gpu_labels,
    drop_gpus,
    list_pod_templates,
    render_workload,
)
from service.formats.renderings.job import GpuKind, Job, Launch, UnrenderableError

_REQUEST = "gpu"
_ROOT, _NEAR = "resource.kubernetes.io/pcieRoot", "-one-root"
_MOST = 8
"""Subrequests of one request (``FirstAvailableDeviceRequestMaxSize``)."""
_MOST_BELOW_ROOT = 4
"""GPUs on one root of PCIe in servers with PCIe cards; nodes of 8 have two roots or more."""


def render_dra_objects(job: Job, launch: Launch) -> Document:
    """Return a job's objects, with claims in its pods.

    They are in place of the device plugin's GPUs.

    Raises UnrenderableError where no image is known, or no selector of the GPU.
    """
    objects, workload = render_workload(job, launch)
    for template in list_pod_templates(workload):
        pod = template["spec"]
        drop_gpus(pod, job)
        drop_gpu_labels(pod, job)
        pod["resourceClaims"] = [{"name": _REQUEST, "resourceClaimTemplateName": job.name}]
        pod["containers"][0]["resources"]["claims"] = [{"name": _REQUEST}]
    template = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": job.name},
        "spec": {"spec": {"devices": _render_devices(job)}},
    }
    return as_list([template, *objects, workload])


def _render_devices(job: Job) -> dict[str, Any]:
    choices = _list_subrequests(job)
    near = [f"{_REQUEST}/{subrequest['name']}" for subrequest in choices if _is_near(subrequest)]
    if len(choices) == 1:
        request = {name: value for name, value in choices[0].items() if name != "name"}
        return {"requests": [{"name": _REQUEST, "exactly": request}]}
    # A constraint on a subrequest counts where that one was taken.
    constraints = [{"requests": [name], "matchAttribute": _ROOT} for name in near]
    return {
        "requests": [{"name": _REQUEST, "firstAvailable": choices}],
        **({"constraints": constraints} if constraints else {}),
    }


def _list_subrequests(job: Job) -> list[dict[str, Any]]:
    """Return what is asked for, the best first.

    Of each kind of GPU those near each other come before those anywhere.
    """
    if job.gpu is None:
        if not job.known_gpus:
            raise UnrenderableError("no GPU is known that holds this: name one")
        return [_render_subrequest(job, "any", select_memory(job.known_gpus))]
    planned = GpuKind(device=job.device, names=job.gpu, needed_bytes=job.needed_bytes)
    choices: list[dict[str, Any]] = []
    for kind in (planned, *job.substitutes):
        name, selector = _make_name(kind.device.name), select_kind(kind)
        has_fabric = kind.names is not None and kind.names.has_fabric
        if not has_fabric and 1 < job.gpus_per_node <= _MOST_BELOW_ROOT:
            choices.append(_render_subrequest(job, f"{name}{_NEAR}", selector))
        choices.append(_render_subrequest(job, name, selector))
    return choices[:_MOST]


def _is_near(subrequest: dict[str, Any]) -> bool:
    return str(subrequest["name"]).endswith(_NEAR)


def _render_subrequest(job: Job, name: str, selector: str) -> dict[str, Any]:
    kind = "gpu" if job.mig_profile is None else "mig"
    return {
        "name": name,
        "deviceClassName": f"{kind}.nvidia.com",
        "count": job.gpus_per_node,
        "selectors": [{"cel": {"expression": selector}}],
    }


def _make_name(name: str) -> str:
    """Return a label of RFC 1123, with room for what follows it."""
    return re.sub(r"[^a-z0-9]+", "-", name.casefold())[:50].strip("-")
