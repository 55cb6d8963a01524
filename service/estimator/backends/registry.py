"""Registry of backends, by the names that requests have for them."""

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from types import MappingProxyType

from service.estimator.values.backend import Backend
from service.estimator.values.workload import Engine, Framework, ServeWorkload, Workload

BACKENDS: Mapping[str, str] = MappingProxyType(
    {
        "transformers": "service.estimator.backends.transformers.backend",
        "megatron": "service.estimator.backends.megatron.backend",
        "torchtitan": "service.estimator.backends.torchtitan.backend",
        "litgpt": "service.estimator.backends.litgpt.backend",
        "vllm": "service.estimator.backends.vllm.backend",
        "sglang": "service.estimator.backends.sglang.backend",
        "tensorrt_llm": "service.estimator.backends.tensorrt_llm.backend",
        "llama_cpp": "service.estimator.backends.llama_cpp.backend",
        "lmdeploy": "service.estimator.backends.lmdeploy.backend",
        "tgi": "service.estimator.backends.tgi.backend",
    }
)
"""The module of each backend's ``BACKEND``, loaded when a question names it."""


def get_backend(name: Framework | Engine) -> Backend:
    """Return a backend by its name in requests."""
    return _load_backend(BACKENDS[name.value])


@cache
def _load_backend(module: str) -> Backend:
    backend: Backend = import_module(module).BACKEND
    return backend


def select_backend(workload: Workload) -> Backend:
    """Return the backend that runs a workload."""
    return get_backend(
        workload.engine if isinstance(workload, ServeWorkload) else workload.framework
    )
