"""Engines that an object describes by fields: KServe, Ray Serve, production-stack."""

from typing import Any

import pytest

from service.formats.launches.values.errors import LaunchFormatError
from tests.unit.formats.launches.asking import ask, get_layout, get_workload

PREDICTOR = """
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata: {name: llama}
spec:
  predictor:
    nodeSelector: {nvidia.com/gpu.product: NVIDIA-L4}
    model:
      modelFormat: {name: huggingface}
      args: [--model_name=llama, --model_id=meta-llama/Llama-2-7b-hf, --max-model-len=2048,
             --tensor-parallel-size, "2"]
      resources: {limits: {nvidia.com/gpu: "2"}}
"""
STORED = PREDICTOR.replace(" --model_id=meta-llama/Llama-2-7b-hf,", "").replace(
    "modelFormat: {name: huggingface}",
    'modelFormat: {name: vLLM}\n      storageUri: "hf://meta-llama/Llama-2-7b-hf:main"',
)
SERVICE = """
apiVersion: serving.kserve.io/v1alpha2
kind: LLMInferenceService
metadata: {name: llama}
spec:
  model: {uri: "hf://meta-llama/Llama-2-7b-hf", name: llama}
  parallelism: {tensor: 2}
  template:
    nodeSelector: {nvidia.com/gpu.product: NVIDIA-L4}
    containers:
      - name: main
        env: [{name: VLLM_ADDITIONAL_ARGS, value: "--max-model-len 2048 --port=8000"}]
        resources: {limits: {nvidia.com/gpu: "2"}}
"""
CONFIG = """
applications:
- import_path: ray.serve.llm:build_openai_app
  args:
    llm_configs:
    - model_loading_config: {model_id: llama, model_source: meta-llama/Llama-2-7b-hf}
      accelerator_type: L4
      engine_kwargs: {tensor_parallel_size: 2, max_model_len: 2048, trust_remote_code: true}
"""
RAY = "apiVersion: ray.io/v1\nkind: RayService\nspec:\n  serveConfigV2: |\n" + "".join(
    f"    {line}\n" for line in CONFIG.strip().splitlines()
)
VALUES = """
servingEngineSpec:
  modelSpec:
  - name: llama
    repository: vllm/vllm-openai
    tag: v0.20.1
    modelURL: meta-llama/Llama-2-7b-hf
    requestGPU: 2
    nodeSelectorTerms:
    - matchExpressions: [{key: nvidia.com/gpu.product, operator: In, values: [NVIDIA-L4]}]
    vllmConfig: {tensorParallelSize: 2, maxModelLen: 2048, extraArgs: ["--port", "8000"]}
"""
ALL = [PREDICTOR, STORED, SERVICE, CONFIG, RAY, VALUES]


def _read(text: str) -> Any:  # noqa: ANN401 - a question
    return ask(files=[{"name": "a.yaml", "content": text}])


@pytest.mark.parametrize("text", ALL)
def test_an_object_is_the_engine_that_it_starts(text: str) -> None:
    """Its fields are options, its model the hub's, its GPU that of its nodes."""
    question = _read(text)

    assert question.imported.launcher == "vllm"
    assert question.document["model"] == "meta-llama/Llama-2-7b-hf"
    assert question.document["gpu"] == "L4"
    assert get_layout(question)["tensor_parallel"] == 2
    assert get_workload(question)["max_model_len"] == 2048
    assert question.imported.ignored == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            STORED.replace(', --tensor-parallel-size, "2"]', "]")
            .replace('             --tensor-parallel-size, "2"]', "             --port=1]")
            .replace("    model:", "    workerSpec: {pipelineParallelSize: 2}\n    model:")
            .replace("workerSpec: {", "workerSpec: {tensorParallelSize: 4, "),
            {"tensor_parallel": 4, "pipeline_parallel": 2},
        ),
        (
            SERVICE.replace("{tensor: 2}", "{tensor: 2, data: 8, dataLocal: 4}"),
            {"tensor_parallel": 2, "data_parallel": 8, "gpus_per_node": 8},
        ),
    ],
)
def test_an_object_says_the_layout_of_several_pods(text: str, expected: dict[str, int]) -> None:
    """Workers are of one engine with the predictor, and replicas of a node are counted."""
    assert get_layout(_read(text)) == expected


def test_a_tag_is_the_release() -> None:
    """Whose defaults hold."""
    assert _read(VALUES).imported.versions["vllm"] == "0.20.1"


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        (
            CONFIG
            + CONFIG.split("args:\n    llm_configs:\n")[1].replace("Llama-2-7b", "Llama-3-8B"),
            r"2 launches: vllm serve meta-llama/Llama-2-7b-hf \(a.yaml:1\)",
        ),
        (PREDICTOR.replace("[--model_name", "[--backend=huggingface, --model_name"), "no launcher"),
        (PREDICTOR.replace("name: huggingface", "name: sklearn"), "no launcher"),
        (SERVICE + "  prefill:\n    parallelism: {tensor: 4}\n", "2 launches"),
    ],
)
def test_what_is_several_engines_or_none_is_refused(text: str, refusal: str) -> None:
    """Each model has a question of its own; prompts and answers on GPUs of their own are two."""
    with pytest.raises(LaunchFormatError, match=refusal):
        _read(text)


@pytest.mark.parametrize("value", ["3", "{a: b}", "[[1], {}]", "null"])
def test_another_shape_is_no_crash(value: str) -> None:
    """What is no list of options says nothing."""
    start, _, end = PREDICTOR.partition("[--model_name")
    text = f"{start}{value}{end.partition(']')[2]}"

    assert "workload.prompt_tokens" in _read(text).missing
