"""Rules for training workloads.

A workload without a term is refused with a reason, never guessed.
"""

from service.estimator.memory.fsdp_buffers import resolve_gathering
from service.estimator.memory.image_inputs import check_images, check_scalars
from service.estimator.memory.lengths import check_lengths
from service.estimator.memory.model_limits import check_attention, check_sequence
from service.estimator.memory.peft_methods import resolve_peft_method
from service.estimator.model.architecture import Architecture
from service.estimator.rules.adapters import check_adapters
from service.estimator.rules.layouts import check_training_layout
from service.estimator.rules.offloads import check_offload
from service.estimator.rules.sharing import check_shared_training
from service.estimator.rules.step_options import check_step_options
from service.estimator.values.dtypes import DType
from service.estimator.values.errors import InvalidInputError, NotModelledError
from service.estimator.values.layout import Layout
from service.estimator.values.refusals import check_modelled
from service.estimator.values.workload import Framework, Method, TrainWorkload

_TRAINED_DTYPES = (DType.FP32, DType.BF16, DType.FP16)
_INERT_VALUES: dict[str, object] = {
    "compile": False,
    "deterministic": False,
    "float8": False,
}
"""Words without a term, with the value that changes nothing."""
_ABSENT = ("peft",)


def check_training(
    model: Architecture, workload: TrainWorkload, layout: Layout, *, per_operation: bool = False
) -> None:
    """Raise for a training workload that has no answer yet.

    Raises NotModelledError or InvalidInputError. ``per_operation``: the framework can recompute
    single operations of a block.
    """
    workload = resolve_peft_method(model, workload)
    check_modelled(workload.framework, "workload.framework", (Framework.TRANSFORMERS,))
    check_modelled(workload.method, "workload.method", (Method.FULL, Method.LORA, Method.QLORA))
    _check_unmodelled_options(workload)
    check_step_options(model, workload, layout, per_operation=per_operation)
    check_offload(workload, layout)
    check_adapters(model, workload)
    check_sequence(model, workload.sequence_length)
    check_lengths(model, workload)
    check_images(model, workload)
    check_scalars(model, layout)
    check_shared_training(model, workload, layout)
    check_attention(model, workload.attention)
    _check_precision(workload, layout)
    check_training_layout(model, workload, layout)


def check_shape(model: Architecture, workload: TrainWorkload) -> None:
    """Raise for batches and sequences that ``check_training`` refuses.

    Its other rules depend on neither.
    """
    check_sequence(model, workload.sequence_length)
    check_lengths(model, workload)
    check_images(model, workload)


def _check_unmodelled_options(workload: TrainWorkload) -> None:
    for name in _ABSENT:
        if getattr(workload, name) is not None:
            raise NotModelledError(
                name, field=f"workload.{name}", modelled=[f"requests without {name}"]
            )
    for name, inert in _INERT_VALUES.items():
        if (value := getattr(workload, name)) != inert:
            option = f"{name} {str(value).lower()}"
            raise NotModelledError(
                option, field=f"workload.{name}", modelled=[f"{name} {str(inert).lower()}"]
            )


def _check_precision(workload: TrainWorkload, layout: Layout) -> None:
    precision = workload.precision
    for field in (
        "param_dtype",
        "compute_dtype",
        "grad_dtype",
        "master_dtype",
        "main_grad_dtype",
        "optimizer_dtype",
    ):
        check_modelled(
            getattr(precision, field), f"workload.precision.{field}", (*_TRAINED_DTYPES, None)
        )
    if workload.lora is not None:
        check_modelled(workload.lora.dtype, "workload.lora.dtype", _TRAINED_DTYPES)
    if (
        precision.autocast
        and precision.compute_dtype is precision.param_dtype
        and workload.lora is None
    ):
        message = (
            f"autocast to {precision.compute_dtype} does nothing for {precision.param_dtype} "
            "parameters; drop autocast"
        )
        raise InvalidInputError(message, field="workload.precision.autocast")
    casts = precision.compute_dtype is not precision.param_dtype and not precision.autocast
    if casts and resolve_gathering(precision, layout) is None:
        message = (
            f"compute_dtype {precision.compute_dtype.value} beside {precision.param_dtype.value} "
            "parameters without autocast is a cast at gather: use sharding 'fsdp2' or zero_stage "
            "3, or set autocast"
        )
        raise InvalidInputError(message, field="workload.precision.compute_dtype")
