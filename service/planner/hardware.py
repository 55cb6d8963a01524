"""What runs on whose GPUs, and in which formats: engines and frameworks that are made for some hardware alone."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from service.estimator.device import Device
from service.estimator.dtypes import DType
from service.estimator.errors import InvalidInputError
from service.estimator.workload import Engine, Framework, Quantization, ServeWorkload, Workload

_MAKERS = {"nvidia": "NVIDIA", "amd": "AMD", "intel": "Intel Gaudi"}
"""Makers of the catalogue; of a GPU that is only a number of bytes nobody knows what runs on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _MadeFor:
    """Whose GPUs a program runs on, and where that is said."""

    name: str
    vendors: frozenset[str]
    source: str


_MADE_FOR: Mapping[Engine | Framework, _MadeFor] = {
    Engine.TENSORRT_LLM: _MadeFor(
        name="TensorRT-LLM",
        vendors=frozenset({"nvidia"}),
        source="https://nvidia.github.io/TensorRT-LLM/supported-hardware.html",
    ),
    Framework.MEGATRON: _MadeFor(
        name="Megatron-LM with the Transformer Engine, as it is modelled,",
        vendors=frozenset({"nvidia", "amd"}),
        source="Megatron-LM's README, Quick Start: transformer-engine[pytorch]; github.com/ROCm/TransformerEngine",
    ),
}


def check_hardware(device: Device, workload: Workload) -> None:
    """Refuse an engine or a framework on GPUs of a maker that it is not made for."""
    serves = isinstance(workload, ServeWorkload)
    made = _MADE_FOR.get(workload.engine if isinstance(workload, ServeWorkload) else workload.framework)
    if made is None or device.vendor not in _MAKERS or device.vendor in made.vendors:
        return
    makers = " and ".join(_MAKERS[vendor] for vendor in _MAKERS if vendor in made.vendors)
    message = f"{made.name} runs on GPUs of {makers}, and {device.name} is one of {_MAKERS[device.vendor]}"
    raise InvalidInputError(message, field="workload.engine" if serves else "workload.framework")


def warnings_of_fp8(device: Device, workload: Workload) -> tuple[str, ...]:
    """Return what to say of serving in fp8 on a GPU without hardware for it.

    vLLM multiplies fp8 weights in 16 bits from Turing on (docs.vllm.ai, features/quantization/llm_compressor/fp8); TensorRT-LLM
    lists fp8 from Ada on (its support matrix, "Precision").
    """
    if not isinstance(workload, ServeWorkload) or not device.peak_flops or DType.FP8.value in device.peak_flops:
        return ()
    asked = {
        "quantization fp8": workload.quantization is Quantization.FP8,
        "kv_cache_dtype fp8": workload.kv_cache_dtype is DType.FP8,
    }
    said = [word for word, is_asked in asked.items() if is_asked]
    if not said:
        return ()
    words, verb = " and ".join(said), "needs" if len(said) == 1 else "need"
    why = "engines unpack it to 16 bits where they have kernels for this GPU, and refuse to start where they have none"
    return (f"{words} {verb} fp8 arithmetic, which {device.name} has no hardware for: {why}",)


def in_format_of(workload: Workload, device: Device) -> Workload:
    """Return a workload whose format nobody asked for in one that a GPU has: fp16, with as many bytes, where it has no bf16.

    vLLM refuses bf16 below compute capability 8.0 (0.19.0, vllm/platforms/cuda.py, ``check_if_supports_dtype``).
    """
    rates = device.peak_flops
    if not isinstance(workload, ServeWorkload) or workload.weight_dtype is not DType.BF16 or DType.BF16.value in rates:
        return workload
    if DType.FP16.value not in rates:
        return workload
    cache = DType.FP16 if workload.kv_cache_dtype is DType.BF16 else workload.kv_cache_dtype
    return replace(workload, weight_dtype=DType.FP16, kv_cache_dtype=cache)
