"""TrainJob of Kubeflow's Trainer.

``trainer.kubeflow.org/v1alpha1`` on the runtime ``torch-distributed`` that comes with it
(kubeflow/trainer, ``pkg/apis/trainer/v1alpha1/trainjob_types.go``,
``manifests/base/runtimes/torch_distributed.yaml``). The runtime tells torchrun the nodes by
``PET_`` variables (``pkg/constants/constants.go``); what a TrainJob has no field for is a patch of
it.
"""

from typing import Any

from service.formats.manifests.format import Document
from service.formats.manifests.kueue import place_in_queue
from service.formats.manifests.workloads import as_list, list_pod_templates, render_workload
from service.formats.renderings.job import Job, Launch
from service.formats.renderings.pods import render_pod

_RUNTIME, _CONTAINER = "torch-distributed", "node"
_MANAGER = "headroom.dev/plan"
_VARIABLES = {"HEAD_ADDRESS": "${PET_MASTER_ADDR}", "NODE_RANK": "${PET_NODE_RANK}"}
_PATCHED = ("nodeSelector", "affinity", "tolerations", "volumes")
"""Fields of a pod that a patch may set (``PodSpecPatch``)."""


def render_train_job(job: Job, launch: Launch) -> Document:
    """Return a TrainJob.

    Raises UnrenderableError where no image is known.
    """
    objects, workload = render_workload(job, launch)
    (template,) = list_pod_templates(workload)
    pod: Any = render_pod(job, launch, _VARIABLES) if job.num_nodes > 1 else template["spec"]
    container = pod["containers"][0]
    trainer = {
        "image": container["image"],
        "command": container["command"],
        "env": container["env"],
        "numNodes": job.num_nodes * job.replicas,
        "numProcPerNode": job.gpus_per_node,
        "resourcesPerNode": container["resources"],
    }
    result = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": job.name},
        "spec": {
            "runtimeRef": {"name": _RUNTIME},
            "trainer": trainer,
            "runtimePatches": [_render_patch(pod)],
        },
    }
    place_in_queue(job, result)
    return as_list([*(item for item in objects if item["kind"] != "Service"), result])


def _render_patch(pod: Any) -> dict[str, object]:  # noqa: ANN401 - a pod's spec
    container = {
        "name": _CONTAINER,
        "volumeMounts": pod["containers"][0]["volumeMounts"],
        "securityContext": pod["containers"][0]["securityContext"],
    }
    spec = {
        **{name: pod[name] for name in _PATCHED if name in pod},
        "containers": [container],
    }
    nodes = {"name": _CONTAINER, "template": {"spec": {"template": {"spec": spec}}}}
    return {
        "manager": _MANAGER,
        "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [nodes]}}},
    }
