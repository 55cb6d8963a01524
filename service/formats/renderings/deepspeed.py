"""DeepSpeed's JSON: ZeRO stage, precision, batch, buckets and offload.

They are those that were evaluated.

deepspeed 0.19, ``docs/_pages/config-json.md`` and ``runtime/zero/config.py``.
"""

from service.estimator.memory.fsdp_buffers import DEEPSPEED_BUCKET_ELEMENTS
from service.estimator.values.dtypes import DType
from service.estimator.values.layout import MAX_ZERO_STAGE, Layout
from service.estimator.values.optimizers import COMPRESSING, OptimizerName
from service.estimator.values.precision import Precision
from service.estimator.values.workload import Offload, OffloadTarget, TrainWorkload

NVME_PATH = "/local_nvme"
"""Path of a node's scratch disk in DeepSpeed's documentation."""
_TORCH_NAMES = {DType.BF16: "bfloat16", DType.FP16: "float16"}


def render_deepspeed_config(workload: TrainWorkload, layout: Layout) -> dict[str, object]:
    """Return the configuration of a training run under DeepSpeed.

    Its batch counts each sequence once, whose ranks share it (``runtime/config.py``).
    """
    micro, steps = workload.micro_batch_size, workload.gradient_accumulation_steps
    clipping = {"gradient_clipping": 1.0} if workload.gradient_clipping else {}
    return {
        "train_micro_batch_size_per_gpu": micro,
        "gradient_accumulation_steps": steps,
        "train_batch_size": micro * steps * layout.data_parallel,
        **_render_precision(workload.precision),
        "zero_optimization": _render_zero(layout.zero_stage, workload.offload),
        **clipping,
        **_render_optimizer(OptimizerName(workload.optimizer)),
    }


def list_unexpressed(precision: Precision) -> tuple[str, ...]:
    """Return parts of a precision that DeepSpeed cannot express."""
    pure = precision.master_dtype is None and not precision.autocast
    if pure and precision.param_dtype is DType.FP16:
        return (
            (
                "precision: DeepSpeed keeps fp32 masters of fp16 weights, which this layout was "
                "evaluated without"
            ),
        )
    if precision.name == "custom":
        return ("precision: a policy of its own; DeepSpeed's words say the nearest one",)
    return ()


def _render_optimizer(name: OptimizerName) -> dict[str, object]:
    """Return an optimizer that DeepSpeed alone makes; its rate is the trainer's."""
    if name not in COMPRESSING:
        return {}
    return {"optimizer": {"type": COMPRESSING[name], "params": {"lr": "auto"}}}


def _render_zero(stage: int, offload: Offload) -> dict[str, object]:
    config: dict[str, object] = {
        "stage": stage,
        "overlap_comm": False,
        "contiguous_gradients": True,
        "reduce_bucket_size": DEEPSPEED_BUCKET_ELEMENTS,
    }
    for key, target in (
        ("offload_optimizer", offload.optimizer),
        ("offload_param", offload.parameters),
    ):
        if target is not OffloadTarget.NONE:
            where = {"nvme_path": NVME_PATH} if target is OffloadTarget.NVME else {}
            config[key] = {"device": target.value, "pin_memory": True, **where}
    if stage == MAX_ZERO_STAGE:
        config["stage3_gather_16bit_weights_on_model_save"] = True
    return config


def _render_precision(precision: Precision) -> dict[str, object]:
    if precision.autocast:
        return {"torch_autocast": {"enabled": True, "dtype": _TORCH_NAMES[precision.compute_dtype]}}
    if precision.param_dtype is DType.FP32 and precision.compute_dtype is DType.FP32:
        return {}
    word = precision.compute_dtype.value
    half: dict[str, object] = {"enabled": True}
    if precision.master_dtype is None and precision.param_dtype is DType.BF16:
        half |= {
            "bf16_master_weights_and_grads": True,
            "bf16_optimizer_states": precision.optimizer_dtype is DType.BF16,
        }
    accumulated = precision.main_grad_dtype or precision.grad_dtype
    return {word: half, "data_types": {"grad_accum_dtype": accumulated.value}}
