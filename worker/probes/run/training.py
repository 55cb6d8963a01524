"""Real training steps of a Hugging Face model, with marks.

A step is forward, loss, backward and optimizer step; the marks are the recorder's.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel

from service.estimator.values.heads import Head
from service.estimator.values.workload import Checkpointing, TrainWorkload
from service.probing.plan import NUM_MICRO_BATCHES
from worker.probes.attention.dispatch import KernelContext, use_cuda_kernels
from worker.probes.attention.names import Kernel
from worker.probes.models.build import TORCH_DTYPES, get_head
from worker.probes.models.inputs import Batch, make_training_batch
from worker.probes.models.optimizer_factories import list_kinds
from worker.probes.models.optimizers import Stepper, make_stepper
from worker.probes.models.task_batches import compare_embeddings
from worker.probes.run.assemble import assemble
from worker.probes.run.marks import LossMarks, Marks, mark_head, mark_layers
from worker.probes.run.recorder import mark

STEP_MARK = "step/"
"""Prefix of the mark that begins a step; model and states are made before the first."""

OnStep = Callable[[str], None]

_HALF = (torch.bfloat16, torch.float16)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trainer:
    """A model under training.

    ``model`` is called, ``hf_model`` is the Hugging Face model inside it.
    """

    model: nn.Module
    hf_model: PreTrainedModel
    stepper: Stepper
    workload: TrainWorkload
    kernel: Kernel
    marks: Marks
    kernel_context: KernelContext = use_cuda_kernels
    head: Head = Head.DEFAULT


def make_trainer(
    config: Mapping[str, object],
    workload: TrainWorkload,
    *,
    layers: Sequence[int],
    kernel: Kernel,
    kernel_context: KernelContext = use_cuda_kernels,
    device: str = "cpu",
) -> Trainer:
    """Build the model, its adapters and its optimizer.

    ``kernel_context`` holds every forward pass to a kernel.
    """
    assembled = assemble(config, workload, layers=layers, kernel=kernel, device=device)
    hf_model, model = assembled.hf_model, assembled.model
    if workload.activation_checkpointing is Checkpointing.FULL:
        # Backward leaves the function mode, so what it runs again enters it by itself.
        recompute = {
            "use_reentrant": False,
            "preserve_rng_state": False,
            "context_fn": lambda: (nullcontext(), kernel_context(kernel)),
        }
        hf_model.activation_checkpointing_enable(recompute)
    marks = mark_layers(hf_model, len(layers))
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
        kernel=kernel,
        marks=marks,
        kernel_context=kernel_context,
        head=get_head(config),
    )


def train(
    trainer: Trainer,
    *,
    micro_batch_size: int,
    sequence_length: int,
    num_steps: int,
    on_step: OnStep,
) -> tuple[float, ...]:
    """Run ``num_steps`` optimizer steps and return the seconds of each.

    Each is under a mark of its own.
    """

    def make_batch() -> Batch:
        return make_training_batch(
            trainer.hf_model,
            trainer.workload,
            micro_batch_size=micro_batch_size,
            sequence_length=sequence_length,
            head=trainer.head,
        )

    seconds = []
    for step in range(num_steps):
        on_step(f"step {step + 1} of {num_steps}")
        began = time.perf_counter()
        _run_step(trainer, make_batch, step)
        seconds.append(time.perf_counter() - began)
    return tuple(seconds)


def _run_step(trainer: Trainer, make_batch: Callable[[], Batch], step: int) -> None:
    mark(f"{STEP_MARK}{step}")
    for _ in range(min(trainer.workload.gradient_accumulation_steps, NUM_MICRO_BATCHES)):
        _run_micro_batch(trainer, make_batch())
    mark("optimizer_step")
    trainer.stepper.step()
    mark("between")
    trainer.stepper.zero_grad()
    mark("done")


def _run_micro_batch(trainer: Trainer, batch: Batch) -> None:
    loss_marks = LossMarks()
    with (
        trainer.kernel_context(trainer.kernel),
        _make_autocast(trainer),
        loss_marks,
        trainer.marks.during("forward"),
    ):
        outputs, loss = _run_forward(trainer, batch)
    loss_marks.check()
    if trainer.workload.precision.autocast and trainer.workload.fp32_outputs:
        outputs = _convert_to_fp32(outputs)
    if not trainer.workload.keeps_logits:
        del outputs
    mark("loss/gradient")
    loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped


def _run_forward(trainer: Trainer, batch: Batch) -> tuple[Any, torch.Tensor]:
    """Return what the model returns, and its loss."""
    if trainer.head is not Head.NONE:
        outputs = trainer.model(**batch)
        return outputs, outputs.loss
    labels = batch["labels"]
    outputs = trainer.model(**{name: part for name, part in batch.items() if part is not labels})
    mark("loss/head")
    return outputs, compare_embeddings(outputs.last_hidden_state, batch, labels)


def _convert_to_fp32(outputs: Any) -> Any:  # noqa: ANN401 - what a model returns, part by part
    """Return what a model returned with its 16-bit tensors in fp32.

    (accelerate 1.15 ``utils/operations.py``, ``recursively_apply``.)
    """
    if isinstance(outputs, torch.Tensor):
        return outputs.float() if outputs.dtype in _HALF else outputs
    if isinstance(outputs, Mapping):
        converted = {name: _convert_to_fp32(part) for name, part in outputs.items()}
        return type(outputs)(converted)  # type: ignore[call-arg]  # transformers' outputs are made from a mapping
    if isinstance(outputs, tuple | list):
        return type(outputs)(_convert_to_fp32(part) for part in outputs)
    return outputs


def _make_autocast(trainer: Trainer) -> AbstractContextManager[object]:
    precision = trainer.workload.precision
    if not precision.autocast:
        return nullcontext()
    return torch.autocast(trainer.hf_model.device.type, dtype=TORCH_DTYPES[precision.compute_dtype])
