"""GPUs that a launch's pods ask for."""

import json

import pytest

from service.contract.to_question.launches import LaunchQuestion
from service.formats.launches.values.errors import LaunchFormatError
from tests.unit.formats.launches.asking import ask, get_layout

_TRAIN = "train.py --model_name_or_path llama-2-7b --bf16 --sequence_length 512 --fsdp full_shard"
_H100, _A100 = "NVIDIA-H100-80GB-HBM3", "NVIDIA-A100-SXM4-40GB"


@pytest.mark.parametrize(
    ("selector", "resource", "gpu"),
    [
        ({"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}, "nvidia.com/gpu", "H100-SXM5-80GB"),
        ({"cloud.google.com/gke-accelerator": "nvidia-l4"}, "nvidia.com/gpu", "L4"),
        ({"nvidia.com/gpu.product": "A100-SXM4-80GB"}, "nvidia.com/mig-3g.40gb",
         "A100-SXM4-80GB/3g.40gb"),
        ({}, "nvidia.com/gpu", None),
    ],
)  # fmt: skip
def test_a_pod_says_its_gpus(selector: dict[str, str], resource: str, gpu: str | None) -> None:
    """By the product that it selects; llama.cpp spreads its layers over all of them."""
    container = {
        "image": "ghcr.io/ggml-org/llama.cpp:server-cuda",
        "args": ["-m", "llama-2-7b-Q8_0.gguf", "-c", "4096"],
        "resources": {"limits": {resource: "2"}},
    }
    pod = {"nodeSelector": selector, "containers": [container]}
    text = json.dumps({"apiVersion": "v1", "kind": "Pod", "spec": pod})

    question = ask(files=[{"name": "pod.json", "content": text}])

    assert question.document.get("gpu") == gpu
    assert get_layout(question)["pipeline_parallel"] == 2


def _ask_pods(*pods: tuple[str, object]) -> LaunchQuestion:
    """Return the question of a job whose master and workers have products and numbers."""
    templates = [
        {
            "nodeSelector": {"nvidia.com/gpu.product": product},
            "containers": [
                {
                    "name": "pytorch",
                    "command": ["torchrun", *_TRAIN.split()],
                    "resources": {"limits": {"nvidia.com/gpu": count}},
                }
            ],
        }
        for product, count in pods
    ]
    replicas = {
        kind: {"replicas": 1, "template": {"spec": template}}
        for kind, template in zip(("Master", "Worker"), templates, strict=False)
    }
    spec = {"nprocPerNode": "gpu", "pytorchReplicaSpecs": replicas}
    document = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "spec": spec}
    return ask(files=[{"name": "job.json", "content": json.dumps(document)}])


@pytest.mark.parametrize(
    ("pods", "gpu", "ranks", "warning"),
    [
        (((_H100, 4), (_H100, "4")), "H100-SXM5-80GB", 8, ""),
        (((_H100, 4.0), (_H100, "4.0")), "H100-SXM5-80GB", 8, ""),
        (((_H100, 8), (_H100, 4)), "H100-SXM5-80GB", 8, "4 and 8 GPUs each, and the answer is"),
        (((_H100, 4), (_A100, 4)), None, 8, "its pods select unlike GPUs"),
        (((f"{_A100}-SHARED", 2),), "A100-SXM4-40GB", 2, "2 of nvidia.com/gpu may be one GPU"),
    ],
)
def test_pods_of_a_job_count_together(
    pods: tuple[tuple[str, object], ...], gpu: str | None, ranks: int, warning: str
) -> None:
    """Of unlike numbers the least, of unlike GPUs whichever is asked for."""
    question = _ask_pods(*pods)

    assert question.document.get("gpu") == gpu
    assert get_layout(question)["data_parallel"] == ranks
    assert bool(warning) == bool(question.imported.warnings)
    assert warning in "".join(question.imported.warnings)
    assert ("gpu" in question.missing) == (gpu is None)


@pytest.mark.parametrize("count", [-4, "4.5", 99_999_999, "4Gi"])
def test_a_number_that_no_pod_has_is_refused(count: object) -> None:
    """It is named, with what would be right."""
    with pytest.raises(LaunchFormatError, match="expected a whole number of GPUs up to 65,536"):
        _ask_pods((_H100, count))
