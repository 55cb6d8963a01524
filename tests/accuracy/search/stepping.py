"""Traced steps with options that probes have no loop for.

Kin of LoRA, frozen modules, checkpoints of other kinds, and sequences that share a row: the code of
the model and of PEFT runs as in a probe, with these around it.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from typing import Any

import torch
from peft import IA3Config, LoraConfig, MissConfig, get_peft_model
from torch import nn
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel

from service.estimator.memory.peft_methods import resolve_peft_method
from service.estimator.model.architecture import Architecture
from service.estimator.model.saved_modules import select_saved_modules
from service.estimator.rules.obstacles import is_distributed
from service.estimator.values.batches import SequencePacking
from service.estimator.values.heads import Head
from service.estimator.values.workload import (
    Checkpointing,
    Lora,
    Method,
    TrainWorkload,
    Workload,
)
from service.jobs.contract import FailureKind
from service.probing.plan import NUM_STEPS, Point
from service.probing.refusal import Refusal
from tests.accuracy import traced
from tests.accuracy.search.known_integers import know_integers
from worker.probes.attention.dispatch import KernelContext, use_kernel_dropout
from worker.probes.attention.names import Kernel
from worker.probes.attention.trace_dispatch import make_trace_context
from worker.probes.models.build import TORCH_DTYPES, build_model, fill_weights, get_head
from worker.probes.models.inputs import Batch, make_training_batch
from worker.probes.models.optimizer_factories import list_kinds
from worker.probes.models.optimizers import make_stepper
from worker.probes.ranks.group import fake_ranks
from worker.probes.ranks.materialize import iter_local_weights
from worker.probes.ranks.parallelize import parallelize
from worker.probes.run import training
from worker.probes.run.backend import ProbeSetup
from worker.probes.run.marks import mark_head, mark_layers
from worker.probes.run.recorder import mark
from worker.probes.run.training import Trainer
from worker.probes.trace.cuda_kernels import SCRATCH, Scratch
from worker.probes.trace.known_values import move_in_place, report_cuda_autocast
from worker.probes.trace.ledger import Ledger
from worker.probes.trace.recorder import record_storages
from worker.probes.trace.run import make_fake_mode

_KINDS: Mapping[str, Sequence[str]] = {
    "vision": ("visual", "vision", "multi_modal"),
    "norm": ("norm", "Norm", "ln_"),
    "embedding": ("embed", "wte", "wpe", "relative_attention_bias", "shared.weight"),
    "lm_head": ("lm_head", "embed_out"),
    "mlp_experts": ("experts",),
    "router": ("gate.weight", "router", "e_score"),
    "attention": ("attn", "attention", "Attention"),
    "mlp": ("mlp", "fc", "intermediate", "output.dense", "DenseReluDense", "feed_forward", "ffn"),
    "ssm": ("mixer", "mamba"),
}
"""Parts of parameters' names by kind, which are asked in this order."""


def goes_beyond_probes(workload: Workload) -> bool:
    """Return whether a probe has no loop for a workload."""
    return isinstance(workload, TrainWorkload) and (
        workload.packing is not SequencePacking.NONE
        or workload.method is Method.PEFT
        or (workload.lora is not None and workload.lora.variant != "lora")
        or workload.activation_checkpointing is Checkpointing.SELECTIVE
        or workload.reentrant_checkpointing
        or bool(workload.frozen)
        or workload.num_images is not None
    )


def trace_step(setup: ProbeSetup, point: Point, architecture: Architecture) -> dict[str, int]:
    """Return the traced bytes of each phase; raises Refusal, and what the model raises."""
    scratch = {**SCRATCH, torch.ops.aten.silu_backward.default: traced._inner_products}  # noqa: SLF001 - as other cases are traced
    return traced._read_phases(_trace(setup, point, architecture, scratch))  # noqa: SLF001 - as above


def _trace(
    setup: ProbeSetup, point: Point, architecture: Architecture, scratch: Mapping[object, Scratch]
) -> Ledger:
    """Return what two steps allocate."""
    workload = setup.workload
    assert isinstance(workload, TrainWorkload), "a replica has no step"
    resolved = resolve_peft_method(architecture, workload)
    with ExitStack() as stack:
        stack.enter_context(fake_ranks(setup.layout, setup.rank))
        stack.enter_context(use_kernel_dropout())
        stack.enter_context(move_in_place())
        stack.enter_context(make_fake_mode())
        recorder = stack.enter_context(record_storages(scratch))
        stack.enter_context(know_integers(recorder))
        trainer = _make_trainer(setup, resolved, point, architecture)
        precision = workload.precision
        autocast = TORCH_DTYPES[precision.compute_dtype] if precision.autocast else None
        stack.enter_context(report_cuda_autocast(autocast))
        for step in range(NUM_STEPS):
            _run_step(trainer, point, step)
        mark("end")
        return recorder.ledger


def _make_trainer(
    setup: ProbeSetup, workload: TrainWorkload, point: Point, architecture: Architecture
) -> Trainer:
    config, layout = setup.config, setup.layout
    context = make_trace_context(workload.attention)
    build: dict[str, Any] = {
        "layers": point.layers,
        "dtype": workload.precision.param_dtype,
        "attention": "eager" if setup.kernel is Kernel.EAGER else "sdpa",
    }
    if is_distributed(layout):
        with _disable_current_modes():
            hf_model = build_model(config, **build, device="meta")
            adapted = _train_parts(hf_model, workload, architecture, get_head(config))
        model = parallelize(adapted, layout, workload, device="cpu")
        fill_weights(iter_local_weights(model))
    else:
        hf_model = build_model(config, **build, device="cpu")
        model = _train_parts(hf_model, workload, architecture, get_head(config))
    mark("load")
    _enable_checkpoints(hf_model, workload, context, setup.kernel)
    marks = mark_layers(hf_model, len(point.layers))
    mark_head(hf_model)
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    stepper = make_stepper(
        trainable,
        kinds=list_kinds(hf_model, trainable),
        precision=workload.precision,
        optimizer=workload.optimizer,
        clip=workload.gradient_clipping,
        by_trainer=not workload.keeps_logits,
    )
    return Trainer(
        model=model,
        hf_model=hf_model,
        stepper=stepper,
        workload=workload,
        kernel=setup.kernel,
        marks=marks,
        kernel_context=context,
        head=get_head(config),
    )


def _run_step(trainer: Trainer, point: Point, step: int) -> None:
    """Run a step as probes do."""

    def make_batch() -> Batch:
        return _make_batch(trainer, point)

    training._run_step(trainer, make_batch, step)  # noqa: SLF001 - the probe's own, with another batch


def _make_batch(trainer: Trainer, point: Point) -> Batch:
    workload = trainer.workload
    number, length = workload.rows
    batch = make_training_batch(
        trainer.hf_model,
        workload,
        micro_batch_size=number
        if workload.packing is not SequencePacking.NONE
        else point.micro_batch_size,
        sequence_length=length
        if workload.packing is not SequencePacking.NONE
        else point.sequence_length,
        head=trainer.head,
    )
    if workload.num_images is not None:
        # Processors hand out labels of their own, some of them masked.
        batch |= {"labels": batch["labels"].clone()}
    if (workload.num_images or 1) > 1:
        batch |= _divide_images(trainer, batch, workload.num_images or 1)
    if workload.packing is SequencePacking.NONE:
        return batch
    positions = torch.arange(point.sequence_length).repeat(length // point.sequence_length)
    return batch | {"position_ids": positions[None]}


def _divide_images(trainer: Trainer, batch: Batch, num_images: int) -> Batch:
    """Return token ids with a token of text behind each image, and what says which those are."""
    image_id, ids = trainer.hf_model.config.image_token_id, batch["input_ids"]
    taken = int((ids[0] == image_id).sum())
    size = taken // num_images
    divided = ids.clone()
    divided[:, :taken] = 0
    for index in range(num_images):
        divided[:, index * (size + 1) : index * (size + 1) + size] = image_id
    kinds: Batch = {
        name: (divided == image_id).to(batch[name].dtype)
        for name in ("token_type_ids", "mm_token_type_ids")
        if name in batch
    }
    return {"input_ids": divided, "labels": divided.clone(), **kinds}


def _train_parts(
    model: PreTrainedModel, workload: TrainWorkload, architecture: Architecture, head: Head
) -> nn.Module:
    """Freeze what is not trained, and add what is trained beside it."""
    if workload.frozen:
        _freeze(model, workload.frozen, architecture)
    return model if workload.lora is None else _add_adapters(model, workload.lora, head)


def _freeze(model: PreTrainedModel, kinds: Sequence[str], architecture: Architecture) -> None:
    """Freeze kinds of modules; raises Refusal where names do not tell them apart."""
    counts = architecture.counts.by_module
    frozen = dict.fromkeys(kinds, 0)
    for name, parameter in model.named_parameters():
        kind = next((kind for kind, parts in _KINDS.items() if any(p in name for p in parts)), "")
        if kind in frozen:
            frozen[kind] += parameter.numel()
            parameter.requires_grad = False
    if any(counts.get(kind) != number for kind, number in frozen.items()):
        message = f"names tell {frozen} of {dict(counts)}"
        raise Refusal(FailureKind.UNSUPPORTED, message)


def _add_adapters(model: PreTrainedModel, lora: Lora, head: Head) -> nn.Module:
    targets: Any = "all-linear" if lora.targets is None else list(lora.targets)
    transposed = any(type(module).__name__ == "Conv1D" for module in model.modules())
    modules = (name for name, _ in model.named_modules())
    saved = select_saved_modules(head, modules) or None
    if lora.variant == "ia3":
        inputs = [name for name in lora.targets or () if name in _SCALED_INPUTS]
        config: Any = IA3Config(
            target_modules=targets,
            feedforward_modules=inputs,
            fan_in_fan_out=transposed,
            modules_to_save=saved,
        )
    elif lora.variant == "miss":
        config = MissConfig(r=lora.rank, target_modules=targets, modules_to_save=saved)
    else:
        config = LoraConfig(
            r=lora.rank,
            target_modules=targets,
            fan_in_fan_out=transposed,
            modules_to_save=saved,
            use_dora=lora.variant == "dora",
            use_rslora=lora.variant == "rslora",
            lora_dropout=lora.dropout,
        )
    adapted: nn.Module = get_peft_model(model, config)
    return adapted.train()


_SCALED_INPUTS = ("down_proj", "fc2", "dense_4h_to_h", "fc_out")
"""PEFT 0.21's ``TRANSFORMERS_MODELS_TO_IA3_FEEDFORWARD_MODULES_MAPPING``."""


def _enable_checkpoints(
    model: PreTrainedModel, workload: TrainWorkload, context: KernelContext, kernel: Kernel
) -> None:
    """Let backward compute layers again, as the workload says."""
    if workload.activation_checkpointing is Checkpointing.NONE:
        return
    if not workload.reentrant_checkpointing:
        options = {
            "use_reentrant": False,
            "preserve_rng_state": False,
            "context_fn": lambda: (nullcontext(), context(kernel)),
        }
        model.activation_checkpointing_enable(options, every_n_layers=workload.selective_every or 1)
        return
    model.activation_checkpointing_enable({"use_reentrant": True, "preserve_rng_state": False})
    for module in model.modules():
        if hasattr(module, "_gradient_checkpointing_func"):
            setattr(module, "_gradient_checkpointing_func", _make_reentrant(context, kernel))  # noqa: B010 - as transformers sets it


def _make_reentrant(context: KernelContext, kernel: Kernel) -> Callable[..., object]:
    def run(function: Callable[..., object], *args: object) -> object:
        def run_again(*inner: object) -> object:
            # Both runs are calls of an autograd function, which leave the kernels' mode.
            with context(kernel):
                return function(*inner)

        return checkpoint(run_again, *args, use_reentrant=True, preserve_rng_state=False)

    return run
