"""What runs on whose GPUs, and in which formats: engines and frameworks that are made for some hardware alone."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from service.estimator.model.architecture import Architecture
from service.estimator.model.trees.encoder_decoder import EncoderDecoder
from service.estimator.values.device import Device
from service.estimator.values.dtypes import DType
from service.estimator.values.errors import InvalidInputError
from service.estimator.values.layout import Layout
from service.estimator.values.precision import POLICIES
from service.estimator.values.workload import Attention, Engine, Framework, ServeWorkload, TrainWorkload, Workload
from service.planner.legality.legal import legal
from service.planner.legality.on_device import has_capability

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


def in_format_of(
    device: Device, model: Architecture, workload: Workload, layout: Layout, *, fixed: frozenset[str] = frozenset()
) -> Workload:
    """Return a workload whose format nobody asked for in one that a GPU has: fp16, with as many bytes, where it has no bf16.

    ``fixed`` are the words that the request says. Trainers that know a GPU do the same (vLLM 0.19.0, ``_resolve_auto_dtype``).
    """
    if not lacks_bf16(device):
        return workload
    changed = _in_fp16(workload, fixed)
    return workload if changed is workload or legal(model, changed, layout) is not None else changed


def lacks_bf16(device: Device) -> bool:
    """Tell whether a GPU computes in fp16 and not in bf16."""
    return bool(device.peak_flops) and DType.BF16.value not in device.peak_flops and DType.FP16.value in device.peak_flops


def _in_fp16(workload: Workload, fixed: frozenset[str]) -> Workload:
    if isinstance(workload, TrainWorkload):
        is_open = "precision" not in fixed and workload.precision == POLICIES["bf16_mixed"]
        return replace(workload, precision=POLICIES["fp16_mixed"]) if is_open else workload
    if fixed & {"weight_dtype", "kv_cache_dtype"} or workload.weight_dtype is not DType.BF16:
        return workload
    cache = DType.FP16 if workload.kv_cache_dtype is DType.BF16 else workload.kv_cache_dtype
    return replace(workload, weight_dtype=DType.FP16, kv_cache_dtype=cache)


def with_kernel_of(device: Device, model: Architecture, workload: Workload) -> Workload:
    """Return a workload whose ``sdpa`` is the kernel that PyTorch chooses on a GPU without flash attention.

    Below compute capability 8.0 no flash kernel runs, and the memory-efficient one takes fp16 and fp32 alone (PyTorch 2.13,
    ``cuda/sdp_utils.cpp``); heads that are grouped without a mask leave the math kernel, as on any GPU in fp32.
    """
    if workload.attention is not Attention.SDPA or has_capability(device.compute_capability, FLASH) or model.only_eager:
        return workload
    if isinstance(model, EncoderDecoder):
        return workload  # where scores get a bias, sdpa is never flash
    dtype, masked = _attends(workload)
    if dtype is None or dtype is DType.FP32:
        return workload
    grouped = model.spec.num_key_value_heads < model.spec.num_attention_heads
    efficient = dtype is DType.FP16 and (masked or not grouped)
    return replace(workload, attention=Attention.EFFICIENT if efficient else Attention.MATH)


FLASH = "8.0"
"""The least compute capability of flash attention (PyTorch 2.13, ``check_flash_attention_hardware_support``)."""


def kernel_warnings(device: Device, asked: Workload, runs: Workload) -> tuple[str, ...]:
    """Return what to say of a kernel that a GPU leaves to ``sdpa``."""
    if runs is asked:
        return ()
    where = f"{device.name} has compute capability {device.compute_capability}, and flash attention needs {FLASH}"
    return (f"attention sdpa is PyTorch's {runs.attention.value} kernel here: {where}",)


def _attends(workload: Workload) -> tuple[DType | None, bool]:
    """Return the dtype in which PyTorch's SDPA gets queries, and whether under a mask; None where other code attends."""
    if isinstance(workload, ServeWorkload):
        return (workload.weight_dtype if workload.engine is Engine.TRANSFORMERS else None), False
    is_pytorch = workload.framework is Framework.TRANSFORMERS
    return (workload.precision.compute_dtype if is_pytorch else None), workload.padding_mask
