"""Run:ai: a call of its API that submits a workload.

``POST /api/v1/workloads/{trainings,inferences}`` of Run:ai 2.24 (run-ai-docs.nvidia.com,
"Trainings" and "Inferences"; its Python client, ``models.TrainingCreateRequest``). A script, for
project and cluster have ids that only its reader knows: a shell puts them in.
"""

import json
import re
import shlex

from service.estimator.values.units import MIB, ceil_div
from service.formats.manifests.format import Document
from service.formats.manifests.shares import is_shareable
from service.formats.renderings.host_needs import compute_host_needs
from service.formats.renderings.images import explain_missing_image, find_image
from service.formats.renderings.job import Job, Launch, UnrenderableError
from service.formats.renderings.pods import get_port

_MEGA = 10**6
_CALL = (
    'curl --fail-with-body --silent --show-error "${{RUNAI_URL:?}}/api/v1/workloads/{kind}" '
    '-H "Authorization: Bearer ${{RUNAI_TOKEN:?}}" -H "Content-Type: application/json" '
    "--data-binary @- <<END"
)


def render_runai_call(job: Job, launch: Launch) -> Document:
    """Return a script that submits a job.

    Raises UnrenderableError where no image is known, and for a launch that reads files, which the
    API has no place for.
    """
    image = find_image(job)
    if image is None:
        raise UnrenderableError(explain_missing_image(job))
    if launch.files:
        message = (
            f"Run:ai's API has no place for {', '.join(launch.files)}, which the launch reads: "
            "format kubernetes"
        )
        raise UnrenderableError(message)
    body = {
        "name": job.name,
        "projectId": "${RUNAI_PROJECT_ID:?}",
        "clusterId": "${RUNAI_CLUSTER_ID:?}",
        "spec": _render_spec(job, launch, image),
    }
    kind = "inferences" if job.is_server else "trainings"
    text = _escape(json.dumps(body, indent=2))
    return f"#!/bin/sh\n{_CALL.format(kind=kind)}\n{text}\nEND\n"


def _render_spec(job: Job, launch: Launch, image: str) -> dict[str, object]:
    program, *options = launch.command
    spec: dict[str, object] = {
        "image": image,
        "command": program,
        "args": " ".join(word if "${" in word else shlex.quote(word) for word in options),
        "compute": _render_compute(job),
    }
    if launch.environment:
        spec["environmentVariables"] = [
            {"name": name, "value": value} for name, value in launch.environment.items()
        ]
    if job.is_server:
        spec["servingPort"] = {"protocol": "http", "container": get_port(job)}
        spec["autoscaling"] = {"minReplicas": job.replicas, "maxReplicas": job.replicas}
    return spec


def _render_compute(job: Job) -> dict[str, object]:
    """Return what a workload asks for.

    A server has GPUs alone: nobody here saw what its pool becomes on a share.
    """
    needs = compute_host_needs(job)
    compute: dict[str, object] = {
        "cpuCoreRequest": needs.cpus,
        "cpuMemoryRequest": f"{ceil_div(needs.memory_bytes, _MEGA)}M",
        "largeShmRequest": needs.shm_bytes > 64 * MIB,
        "gpuDevicesRequest": job.gpus_per_node,
    }
    if is_shareable(job) and not job.is_server:
        compute |= {
            "gpuRequestType": "memory",
            "gpuMemoryRequest": f"{ceil_div(job.needed_bytes, _MEGA)}M",
        }
    return compute


def _escape(text: str) -> str:
    """Return text of which a here-document expands ``${NAME}`` alone."""
    return re.sub(r"[\\`]|\$(?!\{)", lambda match: "\\" + match[0], text)
