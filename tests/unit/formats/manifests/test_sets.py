"""JobSets and TrainJobs: every node in one object, that finds the first one."""

from copy import deepcopy
from typing import Any

import jsonschema_rs
import pytest
from kubernetes_validate import validate

from service.estimator.values.layout import Layout
from service.estimator.values.workload import Engine, ServeWorkload
from service.formats.manifests.registry import render_format
from service.formats.renderings.job import Job
from tests.unit.formats.renderings.builders import a_job

ALONE = a_job(layout=Layout(data_parallel=2))
NODES = a_job()
CHAT = a_job(ServeWorkload(num_sequences=8, prompt_tokens=512, engine=Engine.VLLM), Layout())
_NAMED = {"type": "object", "required": ["name"], "additionalProperties": False}
JOBSET = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "network": {
            "type": "object",
            "additionalProperties": False,
            "properties": {"enableDNSHostnames": {"type": "boolean"}},
        },
        "replicatedJobs": {
            "type": "array",
            "items": {
                **_NAMED,
                "properties": {
                    "name": {"type": "string"},
                    "replicas": {"type": "integer", "minimum": 0},
                    "template": {"type": "object", "required": ["spec"]},
                },
            },
        },
    },
}
"""What is rendered of ``config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml``, JobSet 0.12."""
_POD = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        **{key: {"type": "object"} for key in ("affinity", "nodeSelector")},
        **{key: {"type": "array"} for key in ("tolerations", "volumes")},
        "containers": {
            "type": "array",
            "items": {
                **_NAMED,
                "properties": {
                    "name": {"type": "string"},
                    "env": {"type": "array"},
                    "securityContext": {"type": "object"},
                    "volumeMounts": {"type": "array"},
                },
            },
        },
    },
}
TRAINJOB = {
    "type": "object",
    "required": ["runtimeRef"],
    "additionalProperties": False,
    "properties": {
        "runtimeRef": {**_NAMED, "properties": {"name": {"type": "string"}}},
        "trainer": {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "image": {"type": "string"},
                "command": {"type": "array", "items": {"type": "string"}},
                "env": {"type": "array"},
                "numNodes": {"type": "integer", "minimum": 0},
                "numProcPerNode": {"type": "integer"},
                "resourcesPerNode": {
                    "type": "object",
                    "additionalProperties": False,
                    "properties": {key: {"type": "object"} for key in ("requests", "limits")},
                },
            },
        },
        "runtimePatches": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["manager"],
                "additionalProperties": False,
                "properties": {
                    "manager": {"type": "string"},
                    "trainingRuntimeSpec": {"type": "object"},
                },
            },
        },
    },
}
"""The same of ``manifests/base/crds/trainer.kubeflow.org_trainjobs.yaml``, Trainer 2.3."""


def _get_spec(word: str, job: Job) -> dict[str, Any]:
    document: Any = render_format(word, job).document
    spec: dict[str, Any] = document["items"][-1]["spec"]
    return spec


def _get_patched_pod(job: Job) -> dict[str, Any]:
    (patch,) = _get_spec("trainjob", job)["runtimePatches"]
    (nodes,) = patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
    pod: dict[str, Any] = nodes["template"]["spec"]["template"]["spec"]
    return pod


def test_the_nodes_of_a_set_find_the_first() -> None:
    """By the name that JobSet gives its pod, each with its index for a rank."""
    spec = _get_spec("jobset", NODES)
    job = spec["replicatedJobs"][0]["template"]["spec"]
    command = job["template"]["spec"]["containers"][0]["command"][-1]

    assert job["completions"] == job["parallelism"] == NODES.num_nodes == 2
    assert f"HEAD_ADDRESS={NODES.name}-nodes-0-0.{NODES.name}; " in command
    assert "NODE_RANK=${JOB_COMPLETION_INDEX}; " in command


def test_kubernetes_schema_takes_the_job_of_a_set() -> None:
    """Kubernetes 1.37's own schema, strict: it is the Job that JobSet makes."""
    spec = _get_spec("jobset", NODES)["replicatedJobs"][0]["template"]["spec"]
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "nodes"}, "spec": spec}

    validate(job, "1.37", strict=True)


def test_a_train_job_reads_what_its_runtime_says() -> None:
    """Nodes and processes are the plan's, and torchrun has the runtime's address and rank."""
    trainer = _get_spec("trainjob", NODES)["trainer"]

    assert (trainer["numNodes"], trainer["numProcPerNode"]) == (2, 8)
    assert trainer["resourcesPerNode"]["limits"] == {"nvidia.com/gpu": "8"}
    assert "HEAD_ADDRESS=${PET_MASTER_ADDR}; " in trainer["command"][-1]
    assert "NODE_RANK=${PET_NODE_RANK}; " in trainer["command"][-1]


@pytest.mark.parametrize("job", [ALONE, NODES])
def test_a_train_job_has_a_pods_place_and_volumes(job: Job) -> None:
    """As the pods of a Job: shared memory, the taint of nodes with GPUs, and the product."""
    document: Any = render_format("kubernetes", job).document
    plain = document["items"][-1]["spec"]["template"]["spec"]

    pod = _get_patched_pod(job)

    assert {name: pod[name] for name in ("volumes", "tolerations", "nodeSelector")} == {
        name: plain[name] for name in ("volumes", "tolerations", "nodeSelector")
    }
    assert pod["containers"][0]["volumeMounts"] == plain["containers"][0]["volumeMounts"]
    assert jsonschema_rs.validator_for(_POD).is_valid(pod)
    assert not jsonschema_rs.validator_for(_POD).is_valid(pod | {"restartPolicy": "Never"})


@pytest.mark.parametrize("job", [ALONE, NODES])
@pytest.mark.parametrize(("word", "schema"), [("jobset", JOBSET), ("trainjob", TRAINJOB)])
def test_their_schemas_take_them(word: str, schema: dict[str, Any], job: Job) -> None:
    """And refuse a field beside them, and a number that is a word."""
    spec = _get_spec(word, job)
    validator = jsonschema_rs.validator_for(schema)
    wrong = deepcopy(spec)
    if word == "trainjob":
        wrong["trainer"]["numProcPerNode"] = "auto"
    else:
        wrong["replicatedJobs"][0]["replicas"] = "1"

    assert validator.is_valid(spec)
    assert not validator.is_valid(wrong)
    assert not validator.is_valid(spec | {"parallelism": 2})


@pytest.mark.parametrize("word", ["jobset", "trainjob"])
def test_a_server_is_none_of_them(word: str) -> None:
    """They run jobs that end."""
    assert "runs jobs that end" in (render_format(word, CHAT).reason or "")
