"""Every format by its word, in the order of the offer."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from service.formats.manifests.disaggregated import render_disaggregated_set
from service.formats.manifests.dra import render_dra_objects
from service.formats.manifests.dstack import render_dstack_run
from service.formats.manifests.format import Document, Format, Rendering
from service.formats.manifests.hami import render_hami_objects
from service.formats.manifests.inference_services import (
    render_dynamo_request,
    render_llm_inference_service,
)
from service.formats.manifests.jobset import render_jobset
from service.formats.manifests.kai import render_kai_objects
from service.formats.manifests.kueue import place_in_queue, render_kueue_objects
from service.formats.manifests.podgroup import render_pod_group
from service.formats.manifests.ray_clusters import render_ray_job, render_ray_service
from service.formats.manifests.runai import render_runai_call
from service.formats.manifests.slinky import render_slinky_objects
from service.formats.manifests.trainjob import render_train_job
from service.formats.manifests.volcano import render_volcano_objects
from service.formats.renderings.job import NVIDIA, Job, Launch, UnrenderableError
from service.formats.renderings.kubernetes import (
    render_kubernetes_objects,
    render_leader_worker_objects,
)
from service.formats.renderings.render import make_launch
from service.formats.renderings.schedulers import (
    render_ray_request,
    render_skypilot_task,
    render_slurm_script,
)


def _render_leader_workers(job: Job, launch: Launch) -> Document:
    document: Any = render_leader_worker_objects(job, launch)
    place_in_queue(job, document["items"][-1])
    result: Document = document
    return result


_NAMESPACED = frozenset({"name", "namespace"})
_QUEUED = _NAMESPACED | {"queue"}
_GATED = _QUEUED | {"gate"}
_ROWS = (
    Format(
        word="kubernetes",
        title="Kubernetes: a Job, a Deployment or a LeaderWorkerSet",
        render=render_kubernetes_objects,
        options=_NAMESPACED,
    ),
    Format(
        word="dra",
        title="DRA: the same, its GPUs claimed by their memory",
        render=render_dra_objects,
        vendors=frozenset({NVIDIA}),
        options=_NAMESPACED,
    ),
    Format(
        word="kueue",
        title="Kueue: the same in a queue, a Job suspended until it is admitted",
        render=render_kueue_objects,
        options=_GATED | {"topology"},
    ),
    Format(
        word="podgroup",
        title="PodGroup: a Job whose pods start together, by Kubernetes' own scheduler",
        render=render_pod_group,
        serves=False,
        options=_NAMESPACED,
    ),
    Format(
        word="jobset",
        title="JobSet: a Job whose nodes are one set",
        render=render_jobset,
        serves=False,
        options=_GATED,
    ),
    Format(
        word="trainjob",
        title="Kubeflow Trainer: a TrainJob on its runtime for torch",
        render=render_train_job,
        serves=False,
        options=_GATED,
    ),
    Format(
        word="lws",
        title="LeaderWorkerSet: replicas of a server, on one node each or on several",
        render=_render_leader_workers,
        trains=False,
        options=_QUEUED,
    ),
    Format(
        word="disaggregatedset",
        title="DisaggregatedSet: vLLM's replicas, some for prompts and the others for answers",
        render=render_disaggregated_set,
        trains=False,
        vendors=frozenset({NVIDIA}),
        options=_NAMESPACED,
    ),
    Format(
        word="rayjob",
        title="KubeRay: a RayJob that starts a job on its nodes",
        render=render_ray_job,
        serves=False,
        vendors=frozenset({"amd", NVIDIA}),
        options=_GATED,
    ),
    Format(
        word="rayservice",
        title="KubeRay: a RayService, vLLM's replicas in Ray Serve",
        render=render_ray_service,
        trains=False,
        vendors=frozenset({"amd", NVIDIA}),
        options=_QUEUED,
    ),
    Format(
        word="llminferenceservice",
        title="KServe: an LLMInferenceService, vLLM's replicas behind its router",
        render=render_llm_inference_service,
        trains=False,
        spans_nodes=False,
        options=_NAMESPACED,
    ),
    Format(
        word="dynamo",
        title="Dynamo: a request for a deployment on the GPUs of the plan",
        render=render_dynamo_request,
        trains=False,
        takes_slices=False,
        vendors=frozenset({NVIDIA}),
        options=_NAMESPACED,
    ),
    Format(
        word="volcano",
        title="Volcano: a Job whose pods start together, small ones on a share of a GPU",
        render=render_volcano_objects,
        vendors=frozenset({NVIDIA}),
        options=_QUEUED,
    ),
    Format(
        word="kai",
        title="KAI Scheduler: the objects of Kubernetes in a queue, small ones on a share of a GPU",
        render=render_kai_objects,
        vendors=frozenset({NVIDIA}),
        options=_QUEUED,
    ),
    Format(
        word="hami",
        title="HAMi: the objects of Kubernetes, their GPUs limited to the bytes of the answer",
        render=render_hami_objects,
        takes_slices=False,
        vendors=frozenset({NVIDIA}),
        options=_NAMESPACED,
    ),
    Format(
        word="runai",
        title="Run:ai: a call of its API, small jobs on a share of a GPU",
        render=render_runai_call,
        spans_nodes=False,
        takes_slices=False,
        vendors=frozenset({NVIDIA}),
    ),
    Format(
        word="slinky",
        title="Slinky: the objects of Kubernetes, on nodes that Slurm gives",
        render=render_slinky_objects,
        takes_slices=False,
        vendors=frozenset({"amd", NVIDIA}),
        options=_NAMESPACED,
    ),
    Format(word="slurm", title="Slurm: a batch script", render=render_slurm_script),
    Format(
        word="ray",
        title="Ray: a placement group and its actors, and a job that runs them",
        render=render_ray_request,
        options=frozenset(),
    ),
    Format(word="skypilot", title="SkyPilot: a task", render=render_skypilot_task),
    Format(
        word="dstack",
        title="dstack: a task, or a service of replicas",
        render=render_dstack_run,
        takes_slices=False,
    ),
)
FORMATS: Mapping[str, Format] = MappingProxyType({row.word: row for row in _ROWS})


def render_format(word: str, job: Job) -> Rendering:
    """Return a job in one format, or why it cannot carry it."""
    row = FORMATS[word]
    reason = row.find_obstacle(job)
    if reason is not None:
        return Rendering(word=word, reason=reason)
    try:
        document = row.render(job, make_launch(job))
    except UnrenderableError as error:
        return Rendering(word=word, reason=str(error))
    return Rendering(word=word, document=_set_namespace(document, job.options.namespace))


def _set_namespace(document: Any, namespace: str | None) -> Document:  # noqa: ANN401 - a Document
    """Return objects in a namespace; all of a rendering's are in one."""
    if namespace is not None:
        for item in document["items"]:
            item["metadata"]["namespace"] = namespace
    result: Document = document
    return result
