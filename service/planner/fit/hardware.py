"""Hardware support of engines and frameworks, and their number formats.

Some engines and frameworks are made for some hardware alone.
"""

from dataclasses import replace

from service.estimator.memory.adapter_bases import runs_own_layers
from service.estimator.model.architecture import Architecture
from service.estimator.model.trees.encoder_decoder import EncoderDecoder
from service.estimator.rules.grammar.hardware import has_capability
from service.estimator.rules.tables.hardware import MADE_FOR
from service.estimator.rules.violations import find_violation
from service.estimator.values.device import Device
from service.estimator.values.dtypes import DType
from service.estimator.values.errors import InvalidInputError
from service.estimator.values.layout import Layout
from service.estimator.values.precision import POLICIES
from service.estimator.values.workload import (
    Attention,
    Engine,
    Framework,
    ServeWorkload,
    TrainWorkload,
    Workload,
)

_HALVES = {"bf16_mixed": "fp16_mixed", "bf16_autocast": "fp16_autocast"}
"""Policies that a request gets unless it says one, on a GPU with bf16 and on one without."""
_MAKERS = {"nvidia": "NVIDIA", "amd": "AMD", "intel": "Intel Gaudi"}
"""Makers of the catalogue.

Of a GPU that is only a number of bytes nobody knows what runs on it.
"""


def check_hardware(device: Device, workload: Workload) -> None:
    """Refuse an engine or framework on unsupported hardware.

    Raises InvalidInputError for GPUs of a maker that it is not made for.
    """
    serves = isinstance(workload, ServeWorkload)
    supported = MADE_FOR.get(
        workload.engine if isinstance(workload, ServeWorkload) else workload.framework
    )
    if supported is None or device.vendor not in _MAKERS or device.vendor in supported.vendors:
        return
    makers = " and ".join(_MAKERS[vendor] for vendor in _MAKERS if vendor in supported.vendors)
    message = (
        f"{supported.name} runs on GPUs of {makers}, and {device.name} is one of "
        f"{_MAKERS[device.vendor]}"
    )
    field = "workload.engine" if serves else "workload.framework"
    refusal = InvalidInputError(message, field=field)
    refusal.decided_by = frozenset({field})
    raise refusal


def select_format(
    device: Device,
    model: Architecture,
    workload: Workload,
    layout: Layout,
    *,
    fixed: frozenset[str] = frozenset(),
) -> Workload:
    """Return the workload in a number format that the GPU has.

    A format that the request does not fix becomes fp16, with as many bytes, where the GPU has no
    bf16.

    ``fixed`` are the fields that the request sets. Trainers that know a GPU do the same (vLLM
    0.19.0, ``_resolve_auto_dtype``).
    """
    if not lacks_bf16(device):
        return workload
    changed = _switch_to_fp16(workload, fixed)
    return (
        workload
        if changed is workload or find_violation(model, changed, layout) is not None
        else changed
    )


def lacks_bf16(device: Device) -> bool:
    """Return whether a GPU computes in fp16 but not in bf16."""
    return (
        bool(device.peak_flops)
        and DType.BF16.value not in device.peak_flops
        and DType.FP16.value in device.peak_flops
    )


def _switch_to_fp16(workload: Workload, fixed: frozenset[str]) -> Workload:
    if isinstance(workload, TrainWorkload):
        half = _HALVES.get(workload.precision.name) if "precision" not in fixed else None
        return workload if half is None else replace(workload, precision=POLICIES[half])
    if fixed & {"weight_dtype", "kv_cache_dtype"} or workload.weight_dtype is not DType.BF16:
        return workload
    cache = DType.FP16 if workload.kv_cache_dtype is DType.BF16 else workload.kv_cache_dtype
    return replace(workload, weight_dtype=DType.FP16, kv_cache_dtype=cache)


def select_attention_kernel(device: Device, model: Architecture, workload: Workload) -> Workload:
    """Return the workload with the SDPA kernel that PyTorch chooses.

    It differs on a GPU without flash attention.

    Below compute capability 8.0 no flash kernel runs, and the memory-efficient one takes fp16 and
    fp32 alone (PyTorch 2.13, ``cuda/sdp_utils.cpp``); heads that are grouped without a mask leave
    the math kernel, as on any GPU in fp32. Unsloth's layers attend by xFormers, whose kernel is the
    memory-efficient one there, over keys and values of every head (``attention_dispatch.py``).
    """
    if (
        workload.attention is not Attention.SDPA
        or has_capability(device.compute_capability, FLASH)
        or model.only_eager
    ):
        return workload
    if isinstance(model, EncoderDecoder):
        return workload  # where scores get a bias, sdpa is never flash
    dtype, masked = _get_sdpa_inputs(workload)
    if dtype is None or dtype is DType.FP32:
        return workload
    grouped = model.spec.num_key_value_heads < model.spec.num_attention_heads
    has_xformers = isinstance(workload, TrainWorkload) and runs_own_layers(model, workload)
    is_plain = masked or not grouped or has_xformers
    efficient = dtype is DType.FP16 and is_plain
    return replace(workload, attention=Attention.EFFICIENT if efficient else Attention.MATH)


FLASH = "8.0"
"""The least compute capability of flash attention (PyTorch 2.13,
``check_flash_attention_hardware_support``).
"""


def list_kernel_warnings(device: Device, requested: Workload, runs: Workload) -> tuple[str, ...]:
    """Return warnings about a kernel that a GPU leaves to ``sdpa``."""
    if runs is requested:
        return ()
    capability = (
        f"{device.name} has compute capability {device.compute_capability}, and flash attention "
        f"needs {FLASH}"
    )
    return (f"attention sdpa is PyTorch's {runs.attention.value} kernel here: {capability}",)


def _get_sdpa_inputs(workload: Workload) -> tuple[DType | None, bool]:
    """Return the dtype and the mask of PyTorch's SDPA inputs.

    The dtype is that of the queries, and None where other code attends.
    """
    if isinstance(workload, ServeWorkload):
        return (workload.weight_dtype if workload.engine is Engine.TRANSFORMERS else None), False
    is_pytorch = workload.framework is Framework.TRANSFORMERS
    return (workload.precision.compute_dtype if is_pytorch else None), workload.padding_mask
