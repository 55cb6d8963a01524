"""Real training steps: forward, loss, backward and optimizer step of a Hugging Face model, with marks for the recorder."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
from torch import nn
from transformers import PreTrainedModel

from service.estimator.values.workload import Checkpointing, TrainWorkload
from service.probing.plan import NUM_MICRO_BATCHES
from worker.probes.attention.dispatch import Choices, cuda_choices
from worker.probes.attention.names import Kernel
from worker.probes.models.build import TORCH_DTYPES
from worker.probes.models.inputs import Batch, training_batch
from worker.probes.models.optimizers import Stepper, make_stepper
from worker.probes.run.assemble import assemble
from worker.probes.run.marks import LossMarks, Marks, mark_head, mark_layers
from worker.probes.run.recorder import mark

STEP_MARK = "step/"
"""Prefix of the mark that begins a step; what is before the first is the making of model and states."""

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trainee:
    """A model under training: ``subject`` is called, ``causal`` is the Hugging Face model inside of it."""

    subject: nn.Module
    causal: PreTrainedModel
    stepper: Stepper
    workload: TrainWorkload
    kernel: Kernel
    marks: Marks
    choices: Choices = cuda_choices


def make_trainee(
    config: Mapping[str, object],
    workload: TrainWorkload,
    *,
    layers: Sequence[int],
    kernel: Kernel,
    choices: Choices = cuda_choices,
    device: str = "cpu",
) -> Trainee:
    """Build the model, its adapters and its optimizer; ``choices`` holds every forward pass to a kernel."""
    assembled = assemble(config, workload, layers=layers, kernel=kernel, device=device)
    causal, subject = assembled.causal, assembled.subject
    if workload.activation_checkpointing is Checkpointing.FULL:
        # Backward leaves the function mode, so what it runs again enters it by itself.
        recompute = {
            "use_reentrant": False,
            "preserve_rng_state": False,
            "context_fn": lambda: (nullcontext(), choices(kernel)),
        }
        causal.activation_checkpointing_enable(recompute)
    marks = mark_layers(causal, len(layers))
    mark_head(causal)
    trained = [parameter for parameter in subject.parameters() if parameter.requires_grad]
    stepper = make_stepper(
        trained,
        precision=workload.precision,
        optimizer=workload.optimizer,
        clip=workload.gradient_clipping,
    )
    return Trainee(
        subject=subject, causal=causal, stepper=stepper, workload=workload, kernel=kernel, marks=marks, choices=choices
    )


def train(trainee: Trainee, *, micro_batch_size: int, sequence_length: int, num_steps: int, tell: Tell) -> tuple[float, ...]:
    """Run ``num_steps`` optimizer steps, each under a mark of its own, and return the seconds of each."""

    def batch() -> Batch:
        return training_batch(
            trainee.causal, trainee.workload, micro_batch_size=micro_batch_size, sequence_length=sequence_length
        )

    seconds = []
    for step in range(num_steps):
        tell(f"step {step + 1} of {num_steps}")
        began = time.perf_counter()
        _one_step(trainee, batch, step)
        seconds.append(time.perf_counter() - began)
    return tuple(seconds)


def _one_step(trainee: Trainee, batch: Callable[[], Batch], step: int) -> None:
    mark(f"{STEP_MARK}{step}")
    for _ in range(min(trainee.workload.gradient_accumulation_steps, NUM_MICRO_BATCHES)):
        _micro_batch(trainee, batch())
    mark("optimizer_step")
    trainee.stepper.step()
    mark("between")
    trainee.stepper.zero_grad()
    mark("done")


def _micro_batch(trainee: Trainee, batch: Batch) -> None:
    loss_marks = LossMarks()
    with trainee.choices(trainee.kernel), _autocast(trainee), loss_marks, trainee.marks.during("forward"):
        outputs = trainee.subject(**batch)
    loss_marks.check()
    loss = outputs.loss
    if not trainee.workload.keeps_logits:
        del outputs
    mark("loss/gradient")
    loss.backward()


def _autocast(trainee: Trainee) -> AbstractContextManager[object]:
    precision = trainee.workload.precision
    if not precision.autocast:
        return nullcontext()
    return torch.autocast(trainee.causal.device.type, dtype=TORCH_DTYPES[precision.compute_dtype])
