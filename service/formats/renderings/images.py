"""Container images that have what a launch starts.

Engines' own, of the release that was evaluated; for training those of a framework, on which a
user's are built.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from service.estimator.backends.registry import get_backend
from service.estimator.values.workload import Engine, Framework, ServeWorkload
from service.formats.renderings.job import NVIDIA, Job

_AMD = "amd"
_TRANSFORMERS = "huggingface/trl:1.16.0"
"""PyTorch with transformers, accelerate, peft and TRL (huggingface/trl, ``docker/trl``)."""
_SERVERS: Mapping[tuple[Engine, str], Callable[[str], str]] = MappingProxyType(
    {
        # vllm-project/vllm, docs/deployment/docker.md.
        (Engine.VLLM, NVIDIA): "vllm/vllm-openai:v{}".format,
        (Engine.VLLM, _AMD): "vllm/vllm-openai-rocm:v{}".format,
        # sgl-project/sglang, docs/get_started/install.md.
        (Engine.SGLANG, NVIDIA): "lmsysorg/sglang:v{}".format,
        # NVIDIA/TensorRT-LLM, docs/source/installation/containers.md.
        (Engine.TENSORRT_LLM, NVIDIA): "nvcr.io/nvidia/tensorrt-llm/release:{}".format,
        # huggingface/text-generation-inference, README.md.
        (Engine.TGI, NVIDIA): "ghcr.io/huggingface/text-generation-inference:{}".format,
        # InternLM/lmdeploy, .github/workflows/docker.yml.
        (Engine.LMDEPLOY, NVIDIA): "openmmlab/lmdeploy:v{}-cu12.8".format,
        # ggml-org/llama.cpp, packages of the build b9603.
        (Engine.LLAMA_CPP, NVIDIA): lambda _version: (
            "ghcr.io/ggml-org/llama.cpp:server-cuda12-b9603"
        ),
        (Engine.TRANSFORMERS, NVIDIA): lambda _version: _TRANSFORMERS,
    }
)
_TRAINERS: Mapping[Framework, str] = MappingProxyType(
    {
        Framework.TRANSFORMERS: _TRANSFORMERS,
        # docker.com/r/pytorch/pytorch.
        Framework.TORCHTITAN: "pytorch/pytorch:2.13.0-cuda13.0-cudnn9-runtime",
        # The same: LitGPT is a package in it.
        Framework.LITGPT: "pytorch/pytorch:2.13.0-cuda13.0-cudnn9-runtime",
        # NVIDIA/Megatron-LM, docs/get-started/install.md.
        Framework.MEGATRON: "nvcr.io/nvidia/pytorch:26.01-py3",
    }
)


def find_image(job: Job) -> str | None:
    """Return the image of a job's containers.

    The one it names, else a published one, None where none is known.
    """
    if job.image is not None:
        return job.image
    workload = job.workload
    if not isinstance(workload, ServeWorkload):
        return _TRAINERS.get(workload.framework) if job.vendor == NVIDIA else None
    tag = _SERVERS.get((workload.engine, job.vendor))
    if tag is None:
        return None
    newest = str(get_backend(workload.engine).newest_release)
    return tag((workload.engine_version or newest).removeprefix("v"))


def explain_missing_image(job: Job) -> str:
    """Return why no pod can be rendered."""
    workload = job.workload
    runner = workload.engine if isinstance(workload, ServeWorkload) else workload.framework
    return (
        f"a pod needs an image, and no published one with {runner.value} for GPUs of "
        f"{job.vendor} is known: say yours"
    )
