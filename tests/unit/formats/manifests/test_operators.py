"""Objects of KubeRay, KServe and Dynamo, held against facts of their schemas."""

import json
import shlex
from dataclasses import replace
from typing import Any

import jsonschema_rs
import pytest
from kubernetes_validate import validate

from service.estimator.values.layout import Layout
from service.estimator.values.speculative import Speculative
from service.formats.manifests.registry import render_format
from tests.unit.formats.manifests.samples import CHAT, SAMPLES
from tests.unit.formats.renderings.builders import a_job


def _close(**properties: object) -> dict[str, object]:
    return {"type": "object", "additionalProperties": False, "properties": properties}


_OBJECT, _TEXT, _COUNT = {"type": "object"}, {"type": "string"}, {"type": "integer", "minimum": 0}
_TEMPLATE = {**_close(metadata=_OBJECT, spec=_OBJECT), "required": ["spec"]}
_PARAMETERS = {"type": "object", "additionalProperties": _TEXT}
_CLUSTER = _close(
    headGroupSpec={
        **_close(rayStartParams=_PARAMETERS, template=_TEMPLATE),
        "required": ["template"],
    },
    workerGroupSpecs={
        "type": "array",
        "items": {
            **_close(
                groupName=_TEXT,
                replicas=_COUNT,
                minReplicas=_COUNT,
                maxReplicas=_COUNT,
                rayStartParams=_PARAMETERS,
                template=_TEMPLATE,
            ),
            "required": ["groupName", "minReplicas", "maxReplicas", "template"],
        },
    },
)
SKUS = [
    *("vr_nvl72", "gb200", "gb200_sxm", "gb10", "b300_sxm", "b200_sxm", "h200_sxm", "h100_sxm"),
    *("h100_pcie", "a100_sxm", "a100_pcie", "a30", "l40s", "l40", "l4", "v100_sxm", "v100_pcie"),
    *("t4", "mi200", "mi300"),
]
SCHEMAS: dict[str, dict[str, Any]] = {
    "RayJob": _close(
        entrypoint=_TEXT, shutdownAfterJobFinishes={"type": "boolean"}, rayClusterSpec=_CLUSTER
    ),
    "RayService": _close(serveConfigV2=_TEXT, rayClusterConfig=_CLUSTER),
    "LLMInferenceService": {
        **_close(
            model={**_close(uri=_TEXT, name=_TEXT), "required": ["uri"]},
            replicas=_COUNT,
            parallelism=_close(tensor={"type": "integer", "minimum": 1}),
            router=_close(route=_OBJECT, gateway=_OBJECT, scheduler=_OBJECT),
            template=_OBJECT,
        ),
        "required": ["model"],
    },
    "DynamoGraphDeploymentRequest": {
        **_close(
            model={"type": "string", "minLength": 1},
            backend={"enum": ["auto", "sglang", "trtllm", "vllm"]},
            hardware=_close(
                gpuSku={"enum": SKUS},
                vramMb={"type": "number"},
                totalGpus=_COUNT,
                numGpusPerNode=_COUNT,
            ),
            workload=_close(isl=_COUNT, osl=_COUNT, concurrency={"type": "number"}),
        ),
        "required": ["model"],
    },
}
"""Of KubeRay 1.7, KServe 0.20 and Dynamo 1.6: what is rendered of their CRDs."""
CARRIED = [
    ("rayjob", "named job"),
    ("rayjob", "named script"),
    ("rayservice", "named server"),
    ("rayservice", "named large server"),
    ("llminferenceservice", "named server"),
    ("dynamo", "named server"),
    ("dynamo", "named large server"),
]


def _render(word: str, name: str) -> dict[str, Any]:
    document: Any = render_format(word, SAMPLES[name]).document
    result: dict[str, Any] = document["items"][-1]
    return result


@pytest.mark.parametrize(("word", "name"), CARRIED)
def test_their_schemas_take_them(word: str, name: str) -> None:
    """And refuse another field."""
    item = _render(word, name)
    validator = jsonschema_rs.validator_for(SCHEMAS[item["kind"]])

    assert [error.message for error in validator.iter_errors(item["spec"])] == []
    assert not validator.is_valid(item["spec"] | {"completions": 1})


@pytest.mark.parametrize(("word", "name"), CARRIED[:5])
def test_kubernetes_takes_their_pods(word: str, name: str) -> None:
    """Those of a Ray cluster start what KubeRay tells them."""
    spec = _render(word, name)["spec"]
    cluster = spec.get("rayClusterSpec") or spec.get("rayClusterConfig")
    pods = [spec["template"]] if cluster is None else _list_pods(cluster)

    for pod in pods:
        validate(
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": pod},
            "1.37",
            strict=True,
        )
        assert "command" not in pod["containers"][0]


def _list_pods(cluster: dict[str, Any]) -> list[dict[str, Any]]:
    groups = [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]
    return [group["template"]["spec"] for group in groups]


def test_a_ray_job_has_a_worker_for_each_node() -> None:
    """Its entry point reads the command and its shape from files that every pod has."""
    document: Any = render_format("rayjob", SAMPLES["named job"]).document
    config, item = document["items"]
    cluster = item["spec"]["rayClusterSpec"]
    worker = cluster["workerGroupSpecs"][0]
    limits = worker["template"]["spec"]["containers"][0]["resources"]["limits"]

    assert item["spec"]["entrypoint"] == "python /etc/launch/start_nodes.py"
    assert json.loads(config["data"]["shape.json"]) == {
        "folder": "/etc/launch",
        "bundles": [{"GPU": 8}, {"GPU": 8}],
        "strategy": "STRICT_SPREAD",
        "groups": 1,
        "ranks": True,
    }
    assert (worker["replicas"], worker["minReplicas"], worker["maxReplicas"]) == (2, 2, 2)
    assert limits == {"nvidia.com/gpu": "8"}
    assert "--deepspeed /etc/launch/deepspeed_config.json" in config["data"]["command.sh"]
    for pod in _list_pods(cluster):
        mounts = {mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]}
        assert "/etc/launch" in mounts
    compile(config["data"]["start_nodes.py"], "start_nodes.py", "exec")


def test_a_ray_service_has_the_engine_of_the_plan() -> None:
    """Flags are keywords of their types; Ray places the ranks of a replica on two nodes."""
    config = json.loads(_render("rayservice", "named large server")["spec"]["serveConfigV2"])
    (llm,) = config["applications"][0]["args"]["llm_configs"]
    keywords = llm["engine_kwargs"]

    assert llm["model_loading_config"]["model_source"] == "acme/llama-2-7b"
    assert llm["deployment_config"] == {"num_replicas": 3}
    assert (keywords["tensor_parallel_size"], keywords["pipeline_parallel_size"]) == (8, 2)
    assert keywords["gpu_memory_utilization"] == 0.92
    assert keywords["distributed_executor_backend"] == "ray"
    assert not {"nnodes", "node_rank", "master_addr"} & set(keywords)


def test_ranks_that_share_experts_start_together() -> None:
    """Ray Serve LLM has a builder of its own for them, with one group of replicas."""
    spread = Layout(tensor_parallel=2, data_parallel=4, expert_parallel=4)
    job = replace(
        SAMPLES["named server"],
        model=a_job(model="mixtral-8x7b", layout=spread).model,
        layout=spread,
    )
    document: Any = render_format("rayservice", job).document
    [application] = json.loads(document["items"][0]["spec"]["serveConfigV2"])["applications"]
    config = application["args"]["llm_config"]

    assert application["import_path"] == "ray.serve.llm:build_dp_openai_app"
    assert config["deployment_config"] == {"num_replicas": 1}
    assert config["engine_kwargs"]["data_parallel_size"] == 4
    assert config["engine_kwargs"]["enable_expert_parallel"] is True


def test_kserve_starts_vllm_as_planned() -> None:
    """Tensor parallelism is a field of its own; the shared memory is that of its template."""
    spec = _render("llminferenceservice", "named server")["spec"]
    container = spec["template"]["containers"][0]

    assert spec["model"]["uri"] == "hf://acme/llama-2-7b"
    assert (spec["replicas"], spec["parallelism"]) == (3, {"tensor": 2})
    assert "--tensor-parallel-size" not in container["args"]
    assert container["args"][:2] == ["--dtype", "bfloat16"]
    assert [volume["name"] for volume in spec["template"]["volumes"]] == ["dshm"]
    assert set(container["startupProbe"]) == {"periodSeconds", "failureThreshold"}


def test_words_survive_the_shell_that_evaluates_them() -> None:
    """KServe's template joins the arguments and evaluates the line."""
    workload = replace(CHAT, speculative=Speculative(num_tokens=3))
    job = replace(a_job(workload, Layout()), checkpoints=("acme/llama-2-7b",))
    document: Any = render_format("llminferenceservice", job).document
    arguments = document["items"][-1]["spec"]["template"]["containers"][0]["args"]

    words = shlex.split(" ".join(arguments))

    assert json.loads(words[words.index("--speculative-config") + 1])["num_speculative_tokens"] == 3


def test_dynamo_has_the_gpus_of_the_plan_for_its_budget() -> None:
    """And the traffic of all replicas."""
    spec = _render("dynamo", "named server")["spec"]

    assert spec["hardware"] == {
        "gpuSku": "a100_sxm",
        "vramMb": 81920,
        "totalGpus": 6,
        "numGpusPerNode": 8,
    }
    assert spec["workload"]["concurrency"] == 3 * CHAT.num_sequences


@pytest.mark.parametrize(
    ("gpu", "word"),
    [
        ("H100-PCIE-80GB", "h100_pcie"),
        ("L40S", "l40s"),
        ("T4", "t4"),
        ("V100-SXM2-32GB", "v100_sxm"),
        ("B200-SXM6-180GB", "b200_sxm"),
        ("GB200-186GB", "gb200"),
        ("H200-SXM5-141GB", "h200_sxm"),
        ("H100-NVL-94GB", None),
        ("RTX-4090", None),
    ],
)
def test_dynamo_has_a_word_for_a_gpu_or_says_that_it_has_none(gpu: str, word: str | None) -> None:
    """Those of its enumeration."""
    job = replace(a_job(CHAT, Layout(), gpu=gpu), checkpoints=("acme/llama-2-7b",))
    rendering = render_format("dynamo", job)
    document: Any = rendering.document

    if word is None:
        assert f"Dynamo has no word for {gpu}" in (rendering.reason or "")
    else:
        assert document["items"][0]["spec"]["hardware"]["gpuSku"] == word


@pytest.mark.parametrize(
    ("word", "name", "reason"),
    [
        ("rayjob", "two nodes", "has Ray beside what they run"),
        ("rayservice", "server", "has Ray Serve LLM beside what they run"),
        ("rayservice", "other engine", "Ray Serve LLM runs vLLM"),
        ("llminferenceservice", "server", "names its checkpoint"),
        ("llminferenceservice", "other engine", "KServe's template starts vLLM"),
        ("llminferenceservice", "named large server", "a replica of this spans 2"),
        ("dynamo", "server", "names its checkpoint"),
    ],
)
def test_what_they_cannot_carry_is_refused_in_words(word: str, name: str, reason: str) -> None:
    """With what would do."""
    assert reason in (render_format(word, SAMPLES[name]).reason or "")
