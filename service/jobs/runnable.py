"""Workloads that a probe can run.

The service refuses the others by these rules, and a probe checks them again.
"""

from collections.abc import Iterator

from service.estimator.values.dtypes import DType
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.precision import Precision
from service.estimator.values.workload import (
    Cache,
    Checkpointing,
    Engine,
    Framework,
    Loss,
    Method,
    Offload,
    Quantization,
    ServeWorkload,
    TrainWorkload,
    Workload,
)

PROBE_DTYPES = (DType.FP32, DType.BF16, DType.FP16)
PROBE_METHODS = (Method.FULL, Method.LORA)
PROBE_OPTIMIZERS = ("adamw", "adamw_fused", "adamw_loop", "sgd", "sgd_momentum")
MIXED_OPTIMIZERS = ("adamw", "adamw_loop", "sgd", "sgd_momentum")
"""Optimizers that a probe runs on fp32 masters with 16-bit gradients: the fused one does so in
CUDA's own kernels alone.
"""

Obstacles = Iterator[tuple[str, str]]
"""Fields of a request, each with what would be right."""


def find_workload_obstacles(workload: Workload, layout: Layout) -> Obstacles:
    """Yield fields that no probe can run a workload with.

    Each comes with what would be right.
    """
    if isinstance(workload, TrainWorkload):
        yield from _find_dtype_obstacles(
            "workload.precision.param_dtype", workload.precision.param_dtype
        )
        yield from _find_dtype_obstacles(
            "workload.precision.compute_dtype", workload.precision.compute_dtype
        )
        yield from _find_method_obstacles(workload)
        yield from _find_loop_obstacles(workload)
        yield from _find_optimizer_obstacles(workload)
        yield from _find_precision_obstacles(workload.precision, layout)
    else:
        yield from _find_serving_obstacles(workload)


def is_mixed(workload: TrainWorkload) -> bool:
    """Return whether fp32 masters are updated from 16-bit gradients.

    The optimizer does so directly; adapters in fp32 are their own masters.
    """
    precision = workload.precision
    trained = precision.param_dtype if workload.lora is None else workload.lora.dtype
    return (
        precision.master_dtype is not None
        and precision.main_grad_dtype is None
        and trained is not DType.FP32
    )


def _find_method_obstacles(workload: TrainWorkload) -> Obstacles:
    if workload.method not in PROBE_METHODS:
        runs = ", ".join(method.value for method in PROBE_METHODS)
        yield "workload.method", f"a probe trains with method {runs}, not {workload.method.value}"
    lora = workload.lora
    if lora is not None and lora.variant != "lora":
        yield (
            "workload.lora.variant",
            f"a probe makes plain adapters, variant lora, not {lora.variant}",
        )
    if lora is not None and lora.dtype is not DType.FP32:
        yield (
            "workload.lora.dtype",
            f"a probe makes adapters in fp32, as PEFT does, not in {lora.dtype.value}",
        )
    if workload.fp32_norms_and_head:
        message = (
            "a probe leaves norms and head in the weights' dtype: ask with fp32_norms_and_head "
            "false"
        )
        yield "workload.fp32_norms_and_head", message


def _find_loop_obstacles(workload: TrainWorkload) -> Obstacles:
    """Yield settings that a probe's own training loop fixes."""
    if workload.framework is Framework.TRANSFORMERS and workload.framework_version is not None:
        message = (
            "a probe runs the release that its worker has installed, not "
            f"{workload.framework_version}: leave it out"
        )
        yield "workload.framework_version", message
    for field, requested, fixed in _iter_fixed_settings(workload):
        if requested != fixed:
            yield (
                f"workload.{field}",
                (
                    f"a probe runs the plain training loop: {field} {_format_value(fixed)}, not "
                    f"{_format_value(requested)}"
                ),
            )


def _format_value(value: object) -> str:
    """Return a value in a request's own form."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _iter_fixed_settings(workload: TrainWorkload) -> Iterator[tuple[str, object, object]]:
    """Yield each fixed setting, its requested and its fixed value."""
    yield "framework", workload.framework.value, Framework.TRANSFORMERS.value
    yield "loss", workload.loss.value, Loss.FULL_LOGITS.value
    yield "offload", "none" if workload.offload == Offload() else "some", "none"
    yield "frozen", list(workload.frozen), []
    yield "optimizer_in_backward", workload.optimizer_in_backward, False
    yield "reentrant_checkpointing", workload.reentrant_checkpointing, False
    if workload.activation_checkpointing is Checkpointing.SELECTIVE:
        yield "activation_checkpointing", Checkpointing.SELECTIVE.value, "none or full"


def _find_optimizer_obstacles(workload: TrainWorkload) -> Obstacles:
    optimizer = workload.optimizer
    if optimizer not in PROBE_OPTIMIZERS:
        yield (
            "workload.optimizer",
            f"a probe runs optimizer {', '.join(PROBE_OPTIMIZERS)}, not {optimizer}",
        )
    elif is_mixed(workload) and optimizer not in MIXED_OPTIMIZERS:
        message = (
            "with 16-bit gradients for fp32 masters a probe runs optimizer "
            f"{', '.join(MIXED_OPTIMIZERS)}: {optimizer} reads them in CUDA's own kernels alone"
        )
        yield "workload.optimizer", message


def _find_precision_obstacles(precision: Precision, layout: Layout) -> Obstacles:
    cast = precision.compute_dtype is not precision.param_dtype and not precision.autocast
    if not _is_consistent(precision) or (cast and layout.sharding is not Sharding.FSDP2):
        message = (
            f"precision {precision.name} needs a loop of its own: a probe keeps weights, gradients "
            "and states in one dtype, or fp32 masters and states beside 16-bit weights, and casts "
            "by autocast or where FSDP2 gathers"
        )
        yield "workload.precision", message


def _is_consistent(precision: Precision) -> bool:
    if precision.master_dtype is None:
        return (
            precision.grad_dtype is precision.param_dtype is precision.optimizer_dtype
            and precision.main_grad_dtype is None
        )
    fp32 = {precision.master_dtype, precision.main_grad_dtype, precision.optimizer_dtype} - {
        None
    } == {DType.FP32}
    moved = precision.grad_dtype is precision.main_grad_dtype and precision.main_grad_persistent
    return fp32 and (moved or precision.grad_dtype is precision.param_dtype)


def _find_serving_obstacles(workload: ServeWorkload) -> Obstacles:
    if workload.engine is not Engine.TRANSFORMERS:
        yield (
            "workload.engine",
            f"a probe serves with engine {Engine.TRANSFORMERS.value}, not {workload.engine.value}",
        )
    if workload.quantization is not Quantization.NONE:
        yield (
            "workload.quantization",
            f"a probe runs unquantised weights, not {workload.quantization.value}",
        )
    if workload.num_beams > 1:
        yield "workload.num_beams", f"a probe decodes one beam, not {workload.num_beams}"
    if workload.cache is Cache.PAGED:
        yield (
            "workload.cache",
            "a probe serves from transformers' own caches: cache dynamic or static",
        )
    if workload.engine_version is not None:
        message = (
            "a probe runs the version that its worker has installed, not "
            f"{workload.engine_version}: leave it out"
        )
        yield "workload.engine_version", message
    if workload.speculative is not None:
        yield "workload.speculative", "a probe runs one model, without tokens guessed ahead"
    yield from _find_dtype_obstacles("workload.weight_dtype", workload.weight_dtype)
    weights, cache = workload.weight_dtype, workload.kv_cache_dtype
    if cache is not weights:
        message = (
            f"a probe keeps its cache in the weights' dtype {weights.value}, not {cache.value}"
        )
        yield "workload.kv_cache_dtype", message


def _find_dtype_obstacles(field: str, dtype: DType) -> Obstacles:
    if dtype not in PROBE_DTYPES:
        runs = ", ".join(supported.value for supported in PROBE_DTYPES)
        yield field, f"a probe has no {dtype.value}; it runs {runs}"
