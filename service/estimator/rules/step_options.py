"""Rules for the options of a training step.

They are optimizer, loss, recomputation and frozen modules.
"""

from service.estimator.memory.optimizers.table import get_optimizer
from service.estimator.memory.trained import Shards
from service.estimator.model.architecture import Architecture
from service.estimator.values.errors import InvalidInputError, NotModelledError
from service.estimator.values.layout import Layout
from service.estimator.values.workload import (
    Checkpointing,
    Loss,
    Method,
    OffloadTarget,
    TrainWorkload,
)


def check_step_options(
    model: Architecture, workload: TrainWorkload, layout: Layout, *, per_operation: bool
) -> None:
    """Raise for options that have no term or contradict each other.

    ``per_operation``: the framework can recompute single operations of a block.
    """
    _check_optimizer(workload, layout)
    if workload.optimizer_in_backward:
        _check_optimizer_in_backward(workload, layout)
    if workload.loss is not Loss.FULL_LOGITS:
        _check_loss(model, workload, layout)
    if workload.activation_checkpointing is Checkpointing.SELECTIVE:
        _check_selective(model, workload, per_operation=per_operation)
    if layout.shard_embeddings_separately:
        _check_separate_units(model, workload)
    if workload.frozen:
        _check_frozen(model, workload)
    if workload.reentrant_checkpointing:
        _check_reentrant(model, workload)


def _check_optimizer(workload: TrainWorkload, layout: Layout) -> None:
    optimizer = get_optimizer(workload.optimizer)
    if optimizer.whole_tensors and Shards.from_layout(layout).optimizer > 1:
        what = f"{optimizer.name}, whose step works on whole matrices, with sharded states"
        raise NotModelledError(what, field="workload.optimizer", modelled=["zero_stage 0"])


def _check_optimizer_in_backward(workload: TrainWorkload, layout: Layout) -> None:
    field = "workload.optimizer_in_backward"
    accumulates = workload.gradient_accumulation_steps > 1
    needs_all = {
        "gradient_clipping": workload.gradient_clipping,
        "gradient_accumulation_steps": accumulates,
    }
    for name, is_set in needs_all.items():
        if is_set:
            message = (
                f"optimizer_in_backward drops a gradient once it is stepped, so {name} cannot see "
                "them all; drop one"
            )
            raise InvalidInputError(message, field=field)
    if (
        workload.precision.main_grad_dtype is not None
        or workload.precision.master_dtype is not None
    ):
        what = "optimizer_in_backward beside master weights or main gradients"
        raise NotModelledError(
            what, field=field, modelled=["precision fp32, bf16, fp16, amp_bf16, amp_fp16"]
        )
    if get_optimizer(workload.optimizer).temporaries_of_one is None:
        what = f"optimizer_in_backward with {workload.optimizer}"
        raise NotModelledError(
            what, field=field, modelled=["optimizers whose step looks at each tensor alone"]
        )
    if layout.num_gpus > 1 and Shards.from_layout(layout).weights == 1:
        what = "optimizer_in_backward beside replicated gradients, whose buckets outlive their step"
        raise NotModelledError(what, field=field, modelled=["one GPU", "sharding fsdp2"])


def _check_loss(model: Architecture, workload: TrainWorkload, layout: Layout) -> None:
    field, loss = "workload.loss", workload.loss
    if not model.shifts_labels:
        raise NotModelledError(
            f"loss {loss.value} of an encoder", field=field, modelled=["full_logits"]
        )
    if layout.tensor_parallel > 1:
        raise NotModelledError(
            f"loss {loss.value} on tensor-parallel ranks", field=field, modelled=["full_logits"]
        )
    if workload.keeps_logits and loss not in {Loss.FUSED_CROSS_ENTROPY, Loss.FLASH_CROSS_ENTROPY}:
        message = (
            f"keeps_logits has nothing to keep: {loss.value} never holds all logits in one tensor; "
            "drop keeps_logits"
        )
        raise InvalidInputError(message, field="workload.keeps_logits")
    if loss is Loss.CHUNKED and (
        model.finish_hidden is not None or model.finish_logits is not None or model.head.bias
    ):
        what = f"chunked logits of {model.family}, which scales or caps them"
        raise NotModelledError(what, field=field, modelled=["full_logits", "fused_cross_entropy"])
    if loss is Loss.FUSED_LINEAR and model.finish_logits is not None:
        what = f"fused_linear of {model.family}, which scales or caps its logits"
        raise NotModelledError(what, field=field, modelled=["full_logits", "fused_cross_entropy"])


def _check_selective(model: Architecture, workload: TrainWorkload, *, per_operation: bool) -> None:
    if workload.selective_every is None and not per_operation:
        what = (
            "selective checkpointing without a number, which transformers has not: it recomputes "
            "whole layers"
        )
        modelled = ["none", "full", '{"selective": n} for every n-th layer']
        raise NotModelledError(what, field="workload.activation_checkpointing", modelled=modelled)
    if workload.lora is not None or (workload.selective_every is not None and model.order):
        what = "selective checkpointing " + (
            "with adapters" if workload.lora else f"of {model.family}, whose layers alternate"
        )
        raise NotModelledError(
            what, field="workload.activation_checkpointing", modelled=["none", "full"]
        )


def _check_separate_units(model: Architecture, workload: TrainWorkload) -> None:
    """Raise for units of embedding or head that cannot be separate.

    They are not trained whole, or there is more outside of the layers.
    """
    if (
        workload.method is not Method.FULL
        or workload.frozen
        or type(model) is not Architecture
        or model.stem
    ):
        what = (
            f"shard_embeddings_separately of a {model.family} that is not a decoder trained as a "
            "whole"
        )
        raise NotModelledError(what, field="layout.shard_embeddings_separately", modelled=["false"])


def _check_frozen(model: Architecture, workload: TrainWorkload) -> None:
    kinds = model.parameter_counts().by_module
    for kind in workload.frozen:
        if kind not in kinds:
            message = f"frozen names {kind!r}; this model has {', '.join(sorted(kinds))}"
            raise InvalidInputError(message, field="workload.frozen")
    if workload.method is not Method.FULL:
        message = (
            f'frozen has no meaning beside method "{workload.method.value}", which freezes the '
            'whole model; drop "frozen"'
        )
        raise InvalidInputError(message, field="workload.frozen")
    if set(kinds) <= set(workload.frozen):
        message = (
            f"frozen names every kind of module ({', '.join(sorted(kinds))}): nothing is left to "
            "train"
        )
        raise InvalidInputError(message, field="workload.frozen")


def _check_reentrant(model: Architecture, workload: TrainWorkload) -> None:
    field = "workload.reentrant_checkpointing"
    if workload.activation_checkpointing is not Checkpointing.FULL:
        checkpointing = workload.activation_checkpointing.value
        message = (
            "reentrant_checkpointing says how all blocks are recomputed, and "
            f"activation_checkpointing is {checkpointing}"
        )
        raise InvalidInputError(message, field=field)
    if type(model) is not Architecture or not model.shifts_labels or model.images is not None:
        raise NotModelledError(
            f"reentrant checkpoints of {model.family}", field=field, modelled=["decoders of text"]
        )
    if workload.frozen:
        raise NotModelledError(
            "reentrant checkpoints beside frozen modules",
            field=field,
            modelled=["frozen []", "adapters"],
        )
    if workload.offload.activations is not OffloadTarget.NONE:
        what = "reentrant checkpoints whose inputs move to the host"
        raise NotModelledError(what, field=field, modelled=["offload.activations none"])
