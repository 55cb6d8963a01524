"""Shares of a GPU: HAMi's limits, KAI's and Volcano's shares, and who has GPUs alone."""

from dataclasses import replace
from typing import Any

import jsonschema_rs
import pytest
from kubernetes_validate import ValidationError, validate

from service.estimator.values.layout import Layout
from service.estimator.values.units import GIB, MIB
from service.estimator.values.workload import Engine, ServeWorkload
from service.formats.manifests.registry import render_format
from service.formats.renderings.job import Job
from tests.unit.formats.renderings.builders import a_job, flags_of

CHAT = ServeWorkload(
    num_sequences=8, prompt_tokens=512, engine=Engine.VLLM, gpu_memory_fraction=0.25
)
SMALL = replace(a_job(layout=Layout()), needed_bytes=14 * GIB + 1)
SERVER = replace(a_job(CHAT, Layout()), needed_bytes=20 * GIB)
PAIR = replace(a_job(CHAT, Layout(tensor_parallel=2)), needed_bytes=20 * GIB)
LARGE = a_job(layout=Layout())
NODES = a_job()
VOLCANO = {
    "type": "object",
    "additionalProperties": False,
    "required": ["minAvailable", "queue", "tasks"],
    "properties": {
        "schedulerName": {"type": "string"},
        "queue": {"type": "string"},
        "minAvailable": {"type": "integer", "minimum": 0},
        "networkTopology": {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "mode": {"enum": ["hard", "soft"]},
                "highestTierAllowed": {"type": "integer"},
            },
        },
        "plugins": {
            "type": "object",
            "additionalProperties": {"type": "array", "items": {"type": "string"}},
        },
        "policies": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "properties": {
                    "event": {"enum": ["PodFailed", "PodEvicted", "TaskCompleted", "TaskFailed"]},
                    "action": {"type": "string"},
                },
            },
        },
        "tasks": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "additionalProperties": False,
                "properties": {
                    "name": {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"},
                    "replicas": {"type": "integer", "minimum": 0},
                    "template": {"type": "object"},
                },
            },
        },
    },
}
"""What is rendered of ``config/crd/volcano/bases/batch.volcano.sh_jobs.yaml`` of Volcano 1.15."""


def _list_items(word: str, job: Job) -> list[dict[str, Any]]:
    document: Any = render_format(word, job).document
    items: list[dict[str, Any]] = document["items"]
    return items


def _get_template(word: str, job: Job) -> dict[str, Any]:
    spec = _list_items(word, job)[-1]["spec"]
    template: dict[str, Any] = spec["tasks"][0]["template"] if "tasks" in spec else spec["template"]
    return template


def _get_limits(word: str, job: Job) -> dict[str, str]:
    limits: dict[str, str] = _get_template(word, job)["spec"]["containers"][0]["resources"].get(
        "limits", {}
    )
    return limits


def _get_fraction(word: str, job: Job) -> float:
    command = _get_template(word, job)["spec"]["containers"][0]["command"][-1]
    return float(flags_of(command.removeprefix("exec "))["gpu_memory_utilization"])


def test_hami_limits_each_gpu_to_the_bytes_rounded_up() -> None:
    """A byte above 14 GiB is one MiB more, on the GPU of the plan by its registered name."""
    template = _get_template("hami", SMALL)

    assert _get_limits("hami", SMALL) == {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "14337"}
    assert template["metadata"]["annotations"] == {
        "nvidia.com/use-gputype": "NVIDIA A100-SXM4-80GB"
    }
    assert "nodeSelector" not in template["spec"]


@pytest.mark.parametrize("word", ["hami", "volcano"])
def test_vllm_has_the_same_pool_on_a_share(word: str) -> None:
    """A quarter of the GPU is nearly all of a share, which vLLM takes for a GPU."""
    planned = 0.25 * SERVER.device.usable_bytes

    pool = _get_fraction(word, SERVER) * 20 * GIB

    assert 0 <= planned - pool < 20 * GIB / 10_000


def test_processes_on_shares_do_not_open_each_others_memory() -> None:
    """Tensor parallelism of HAMi goes without custom all-reduce, one process keeps its command."""
    pair, alone = _get_template("hami", PAIR), _get_template("hami", SERVER)

    assert "--disable-custom-all-reduce" in str(pair)
    assert "--disable-custom-all-reduce" not in str(alone)


def test_an_engine_that_fills_what_it_finds_needs_a_gpu() -> None:
    """HAMi refuses it in words; Volcano gives it one."""
    job = replace(SERVER, workload=replace(CHAT, engine=Engine.SGLANG))

    rendering = render_format("hami", job)

    assert "fills a fraction of the memory" in (rendering.reason or "")
    assert _get_limits("volcano", job) == {"nvidia.com/gpu": "1"}


@pytest.mark.parametrize(
    ("job", "limits"),
    [
        (SMALL, {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "14337"}),
        (LARGE, {"nvidia.com/gpu": "1"}),
        (PAIR, {"nvidia.com/gpu": "2"}),
    ],
)
def test_volcano_shares_where_a_second_job_has_room(job: Job, limits: dict[str, str]) -> None:
    """Less than half of one GPU is a share, more and several are whole ones."""
    assert _get_limits("volcano", job) == limits


@pytest.mark.parametrize(
    ("job", "memory"), [(SMALL, "14337"), (SERVER, str(20 * GIB // MIB)), (LARGE, None)]
)
def test_kai_takes_a_share_or_a_gpu_not_both(job: Job, memory: str | None) -> None:
    """Its admission refuses a pod with both; the pool of a server is of the GPU there."""
    template = _get_template("kai", job)

    annotations = template["metadata"].get("annotations", {})
    assert annotations.get("gpu-memory") == memory
    assert ("nvidia.com/gpu" in _get_limits("kai", job)) == (memory is None)
    assert template["metadata"]["labels"]["kai.scheduler/queue"] == "default-queue"
    assert template["spec"]["schedulerName"] == "kai-scheduler"


def test_a_job_of_volcano_is_a_gang_of_numbered_pods() -> None:
    """All pods or none; the first is the head, by the name that Volcano's Service gives it."""
    items = _list_items("volcano", NODES)
    job = items[-1]
    (task,) = job["spec"]["tasks"]
    command = task["template"]["spec"]["containers"][0]["command"][-1]

    assert all(item["kind"] != "Service" for item in items)
    assert job["spec"]["minAvailable"] == task["replicas"] == NODES.num_nodes == 2
    assert f"HEAD_ADDRESS={NODES.name}-worker-0.{NODES.name}; " in command
    assert "NODE_RANK=${VC_TASK_INDEX}; " in command
    assert job["spec"]["plugins"].keys() == {"env", "svc"}


@pytest.mark.parametrize("job", [SMALL, LARGE, NODES])
def test_the_schema_of_volcano_takes_its_jobs(job: Job) -> None:
    """And refuses one with a field beside them, or a mode that is none."""
    spec = _list_items("volcano", job)[-1]["spec"]
    validator = jsonschema_rs.validator_for(VOLCANO)

    assert validator.is_valid(spec)
    assert not validator.is_valid(spec | {"parallelism": 2})
    assert not validator.is_valid(spec | {"networkTopology": {"mode": "preferred"}})


@pytest.mark.parametrize("word", ["kai", "hami", "volcano", "slinky"])
@pytest.mark.parametrize("job", [SMALL, SERVER])
def test_kubernetes_schema_takes_the_pods(word: str, job: Job) -> None:
    """Kubernetes 1.37's own schema, strict, refuses neither them nor a core object."""
    for item in _list_items(word, job):
        if item["apiVersion"] != "batch.volcano.sh/v1alpha1":
            validate(item, "1.37", strict=True)
    template = _get_template(word, job)
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        **template,
        "metadata": {"name": "pod", **template["metadata"]},
    }
    validate(pod, "1.37", strict=True)

    pod["spec"]["schedulername"] = "volcano"
    with pytest.raises(ValidationError):
        validate(pod, "1.37", strict=True)


def test_slurm_is_asked_for_what_the_pods_need() -> None:
    """By Slurm's own name of the GPU, on the object that runs pods, and for part of a node."""
    job = _list_items("slinky", SMALL)[-1]
    prefix = "slurmjob.slinky.slurm.net/"
    annotations = {
        name.removeprefix(prefix): value for name, value in job["metadata"]["annotations"].items()
    }

    assert annotations == {
        "job-name": SMALL.name,
        "gres": "gpu:nvidia_a100-sxm4-80gb:1",
        "cpu-per-task": "4",
        "mem-per-node": "16384Mi",
        "min-nodes": "1",
        "max-nodes": "1",
        "exclusive": "false",
    }
    assert job["spec"]["template"]["spec"]["schedulerName"] == "slurm-bridge-scheduler"


@pytest.mark.parametrize("word", ["kai", "slinky"])
def test_pods_that_start_one_by_one_are_no_job_on_several_nodes(word: str) -> None:
    """It is refused with a format that starts them together."""
    rendering = render_format(word, NODES)

    assert rendering.reason is not None
    assert rendering.reason.endswith(("format volcano", "format slurm"))
