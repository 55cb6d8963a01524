"""Pods that an API server takes and a node can run: image, CPU, memory, shared memory, probes."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from kubernetes_validate import ValidationError, validate

from service.estimator.values.layout import Layout
from service.estimator.values.units import GIB
from service.estimator.values.workload import Engine, Framework, ServeWorkload
from service.formats.renderings.job import Job
from service.formats.renderings.render import render
from tests.unit.formats.renderings.builders import MEGATRON, TRAIN, a_job

SCHEMAS = Path(__file__).with_name("schemas")
CHAT = ServeWorkload(num_sequences=8, prompt_tokens=512, engine=Engine.VLLM)
REPLICA = a_job(CHAT, Layout(tensor_parallel=2), gpu="H100-SXM5-80GB")
LARGE = a_job(CHAT, Layout(tensor_parallel=8, pipeline_parallel=2), model="llama-2-70b")
TRAINING = a_job(layout=Layout(data_parallel=4))


def _list_items(job: Job) -> list[dict[str, Any]]:
    document: Any = render(job)["kubernetes"]
    items: list[dict[str, Any]] = document["items"]
    return items


def _get_pod(job: Job) -> dict[str, Any]:
    spec = _list_items(job)[-1]["spec"]
    template = spec.get("template") or spec["leaderWorkerTemplate"]["leaderTemplate"]
    pod: dict[str, Any] = template["spec"]
    return pod


def _get_container(job: Job) -> dict[str, Any]:
    container: dict[str, Any] = _get_pod(job)["containers"][0]
    return container


@pytest.mark.parametrize("job", [REPLICA, TRAINING, a_job()])
def test_kubernetes_schema_takes_every_core_object(job: Job) -> None:
    """Kubernetes 1.37's own schema, strict, refuses none of them."""
    for item in _list_items(job):
        validate(item, "1.37", strict=True)


def test_the_schema_refuses_a_misspelt_field() -> None:
    """The same objects with a field that no kind has are refused."""
    job = _list_items(TRAINING)[-1]
    job["spec"]["template"]["spec"]["toleration"] = []

    with pytest.raises(ValidationError):
        validate(job, "1.37", strict=True)


@pytest.mark.parametrize("job", [REPLICA, LARGE, TRAINING])
def test_a_pod_without_an_image_is_refused(job: Job) -> None:
    """API servers want one of every container, which their published schema does not say."""
    schema = json.loads((SCHEMAS / "kubernetes.json").read_bytes())
    validator = jsonschema_rs.validator_for(schema)
    document: Any = render(job)["kubernetes"]

    assert validator.is_valid(document)

    spec = document["items"][-1]["spec"]
    template = spec.get("template") or spec["leaderWorkerTemplate"]["workerTemplate"]
    del template["spec"]["containers"][0]["image"]

    assert not validator.is_valid(document)


@pytest.mark.parametrize(
    ("job", "image"),
    [
        (REPLICA, "vllm/vllm-openai:v0.33.0"),
        (
            replace(REPLICA, workload=replace(CHAT, engine_version="0.29.1")),
            "vllm/vllm-openai:v0.29.1",
        ),
        (a_job(CHAT, Layout(), gpu="MI300X-192GB"), "vllm/vllm-openai-rocm:v0.33.0"),
        (a_job(replace(CHAT, engine=Engine.SGLANG), Layout()), "lmsysorg/sglang:v0.5.23"),
        (
            a_job(replace(CHAT, engine=Engine.TENSORRT_LLM), Layout()),
            "nvcr.io/nvidia/tensorrt-llm/release:1.2.0",
        ),
        (TRAINING, "huggingface/trl:1.16.0"),
        (a_job(MEGATRON, Layout()), "nvcr.io/nvidia/pytorch:26.01-py3"),
        (replace(TRAINING, image="registry.example/mine:7"), "registry.example/mine:7"),
    ],
)
def test_an_image_is_the_engines_of_its_release(job: Job, image: str) -> None:
    """A release is the one that was evaluated; the user's own image comes before all."""
    assert _get_container(job)["image"] == image


@pytest.mark.parametrize(
    "job",
    [
        a_job(layout=Layout(), gpu="Gaudi2-96GB"),
        a_job(replace(CHAT, engine=Engine.SGLANG), Layout(), gpu="MI300X-192GB"),
    ],
)
def test_no_pod_is_rendered_without_a_known_image(job: Job) -> None:
    """What no API server would take is not rendered, and a note says what is missing."""
    requests: Any = render(job)

    assert requests["kubernetes"] is None
    assert any(
        note.startswith("Kubernetes: a pod needs an image") for note in requests["launch"]["notes"]
    )
    assert requests["slurm"]


def test_a_pod_asks_for_what_its_host_needs() -> None:
    """Four CPUs and 16 GiB a GPU, and what is kept on the host; GPUs are limit and request."""
    job = replace(TRAINING, host_bytes_per_node=8 * GIB)

    assert _get_container(job)["resources"] == {
        "requests": {"cpu": "16", "memory": f"{72 * 1024}Mi", "nvidia.com/gpu": "4"},
        "limits": {"nvidia.com/gpu": "4"},
    }


@pytest.mark.parametrize("job", [REPLICA, LARGE, TRAINING])
def test_shared_memory_is_bounded_within_the_request(job: Job) -> None:
    """An unbounded /dev/shm takes half a node, and counts as the pod's memory."""
    pod = _get_pod(job)
    (limit,) = [
        volume["emptyDir"]["sizeLimit"] for volume in pod["volumes"] if "emptyDir" in volume
    ]
    request = pod["containers"][0]["resources"]["requests"]["memory"]

    assert 0 < int(limit.removesuffix("Mi")) <= int(request.removesuffix("Mi"))


@pytest.mark.parametrize(
    ("job", "key"),
    [
        (TRAINING, "nvidia.com/gpu"),
        (a_job(CHAT, Layout(), mig_profile="3g.40gb"), "nvidia.com/gpu"),
        (a_job(CHAT, Layout(), gpu="MI300X-192GB"), "amd.com/gpu"),
    ],
)
def test_nodes_that_are_kept_for_gpus_are_tolerated(job: Job, key: str) -> None:
    """Their taint is the GPU's resource, of slices the whole GPU's."""
    assert _get_pod(job)["tolerations"] == [
        {"key": key, "operator": "Exists", "effect": "NoSchedule"}
    ]


def test_a_gpu_of_known_memory_alone_is_a_device_plugins() -> None:
    """No plugin is called after a vendor that nobody knows."""
    job = replace(
        TRAINING, gpu=None, device=replace(TRAINING.device, name="custom", vendor="unknown")
    )

    assert list(_get_container(job)["resources"]["limits"]) == ["nvidia.com/gpu"]


def test_a_server_is_probed_for_as_long_as_it_may_load() -> None:
    """Two GPUs' memory over 1 Gbit/s and ten minutes for what else a start takes."""
    container = _get_container(REPLICA)
    seconds = container["startupProbe"]["failureThreshold"] * 10
    fetched = (seconds - 600) * 125_000_000

    assert container["readinessProbe"] == {
        "httpGet": {"path": "/health", "port": 8000},
        "periodSeconds": 10,
    }
    assert 0 <= fetched - 2 * REPLICA.device.usable_bytes < 20 * 125_000_000


def test_a_job_that_ends_has_no_probe() -> None:
    """Training answers no requests."""
    assert {"startupProbe", "readinessProbe", "ports"} & set(_get_container(TRAINING)) == set()


def test_a_server_has_an_address() -> None:
    """A Service names its port; of replicas that span nodes only the leader answers."""
    one, large = (
        next(item for item in _list_items(job) if item["kind"] == "Service")
        for job in (REPLICA, LARGE)
    )

    assert one["spec"]["ports"] == [{"name": "http", "port": 8000}]
    assert one["spec"]["selector"] == {"app.kubernetes.io/name": "llama-2-7b-serve"}
    assert large["spec"]["selector"] == {
        "app.kubernetes.io/name": "llama-2-70b-serve",
        "leaderworkerset.sigs.k8s.io/worker-index": "0",
    }


def test_only_the_leader_of_a_replica_serves() -> None:
    """Its workers run without a server, which no probe could reach."""
    template = _list_items(LARGE)[-1]["spec"]["leaderWorkerTemplate"]
    (leader,), (worker,) = (
        template[name]["spec"]["containers"] for name in ("leaderTemplate", "workerTemplate")
    )

    assert worker["command"][2] == f"{leader['command'][2]} --headless"
    assert ("startupProbe" in leader, "startupProbe" in worker) == (True, False)


def test_servers_listen_where_probes_reach_them() -> None:
    """SGLang's default is the pod's own loopback; vLLM's is every address."""
    sglang = a_job(replace(CHAT, engine=Engine.SGLANG), Layout())

    assert _get_container(sglang)["command"][2].endswith("--host 0.0.0.0")
    assert "--host" not in _get_container(REPLICA)["command"][2]


@pytest.mark.parametrize("framework", Framework)
def test_every_framework_has_an_image_on_nvidia(framework: Framework) -> None:
    """Training on the commonest GPUs is never without a pod."""
    job = a_job(replace(TRAIN, framework=framework), Layout())

    assert ":" in str(_get_container(job)["image"])
