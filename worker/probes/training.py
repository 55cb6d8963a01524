"""Real training steps: forward, loss, backward and optimizer step of a Hugging Face model, with marks for the recorder."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.autograd.graph import Node
from transformers import PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer

from service.estimator.layout import Sharding
from service.estimator.workload import Checkpointing, Loss, TrainWorkload
from service.jobs.contract import FailureKind
from worker.probes.assemble import assemble
from worker.probes.build import TORCH_DTYPES
from worker.probes.cuda_choices import Choices, cuda_choices
from worker.probes.kernels import Kernel
from worker.probes.optimizers import Stepper, make_stepper
from worker.probes.plan import NUM_MICRO_BATCHES
from worker.probes.ranks.group import current_layout
from worker.probes.recorder import mark
from worker.probes.refusal import Refusal

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
    check_training(workload)
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
    _mark_layers(causal, len(layers))
    _mark_loss(causal)
    trained = [parameter for parameter in subject.parameters() if parameter.requires_grad]
    stepper = make_stepper(
        trained,
        precision=workload.precision,
        optimizer=workload.optimizer,
        clip=workload.gradient_clipping,
        casts_when_gathered=current_layout().sharding is Sharding.FSDP2,
    )
    return Trainee(subject=subject, causal=causal, stepper=stepper, workload=workload, kernel=kernel, choices=choices)


def train(trainee: Trainee, *, micro_batch_size: int, sequence_length: int, num_steps: int, tell: Tell) -> tuple[float, ...]:
    """Run ``num_steps`` optimizer steps, each under a mark of its own, and return the seconds of each."""
    vocab_size = trainee.causal.config.get_text_config().vocab_size
    drawn = torch.randint(0, vocab_size, (micro_batch_size, sequence_length), generator=torch.Generator().manual_seed(0))
    tokens = drawn.to(trainee.causal.device)
    mask = _padding(tokens) if trainee.workload.padding_mask else None
    seconds = []
    for step in range(num_steps):
        tell(f"step {step + 1} of {num_steps}")
        began = time.perf_counter()
        _one_step(trainee, tokens, mask, step)
        seconds.append(time.perf_counter() - began)
    return tuple(seconds)


def _one_step(trainee: Trainee, tokens: torch.Tensor, mask: torch.Tensor | None, step: int) -> None:
    mark(f"{STEP_MARK}{step}")
    for _ in range(min(trainee.workload.gradient_accumulation_steps, NUM_MICRO_BATCHES)):
        _micro_batch(trainee, tokens, mask)
    mark("optimizer_step")
    trainee.stepper.step()
    mark("between")
    trainee.stepper.zero_grad()
    mark("done")


def _micro_batch(trainee: Trainee, tokens: torch.Tensor, mask: torch.Tensor | None) -> None:
    mark("forward/embedding")
    with trainee.choices(trainee.kernel), _autocast(trainee):
        outputs = trainee.subject(input_ids=tokens, attention_mask=mask, labels=tokens, use_cache=False)
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


def _padding(tokens: torch.Tensor) -> torch.Tensor:
    """Return a mask that hides the last token of every sequence."""
    mask = torch.ones_like(tokens)
    mask[:, -1] = 0
    return mask


def check_training(workload: TrainWorkload) -> None:
    """Raise Refusal for words that a cpu probe does not run."""
    if workload.loss is not Loss.FULL_LOGITS:
        message = f"a cpu probe runs transformers' own loss, not {workload.loss.value!r}; ask with loss full_logits"
        raise Refusal(FailureKind.UNSUPPORTED, message)
    if workload.activation_checkpointing is Checkpointing.SELECTIVE:
        message = "transformers checkpoints whole layers: activation_checkpointing none and full can be run, selective cannot"
        raise Refusal(FailureKind.UNSUPPORTED, message)


def decoder_layers(causal: PreTrainedModel, num_layers: int) -> Sequence[nn.Module]:
    """Return the decoder layers, in order."""
    for module in causal.modules():
        if (
            isinstance(module, nn.ModuleList)
            and len(module) == num_layers
            and isinstance(module[0], GradientCheckpointingLayer)
        ):
            return list(module)
    message = f"found no stack of {num_layers} decoder layers in {type(causal).__name__}"
    raise Refusal(FailureKind.UNSUPPORTED, message)


def _mark_layers(causal: PreTrainedModel, num_layers: int) -> None:
    """Divide forward and backward at the layers' borders, so that each stretch is linear in depth."""
    layers = decoder_layers(causal, num_layers)
    for index, layer in enumerate(layers):
        after = f"layer:{index + 1}" if index + 1 < num_layers else "head"
        before = f"layer:{index - 1}" if index else "embedding"
        layer.register_forward_pre_hook(_entering(f"forward/layer:{index}", f"backward/{before}"), with_kwargs=True)
        layer.register_forward_hook(_leaving(f"forward/{after}", f"backward/layer:{index}"))


def _entering(forward: str, backward: str) -> Callable[[nn.Module, tuple[Any, ...], dict[str, Any]], None]:
    def hook(_layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if forward.endswith("layer:0"):
            _mark_gradient(args[0] if args else kwargs["hidden_states"], backward)
            mark(forward)

    return hook


def _leaving(forward: str, backward: str) -> Callable[[nn.Module, tuple[Any, ...], Any], None]:
    def hook(_layer: nn.Module, _args: tuple[Any, ...], output: object) -> None:
        _mark_gradient(output[0] if isinstance(output, tuple) else output, backward)
        mark(forward)

    return hook


def _mark_gradient(tensor: object, name: str) -> None:
    """Mark the moment when the gradient of ``tensor`` is complete: backward reaches what made it."""
    if isinstance(tensor, torch.Tensor) and tensor.grad_fn is not None:
        tensor.grad_fn.register_prehook(lambda _grads: mark(name))


def _mark_loss(causal: PreTrainedModel) -> None:
    """Divide head and loss from the rest; the head belongs to the loss: fused losses never make its logits."""
    head = causal.get_output_embeddings()  # type: ignore[no-untyped-call]  # transformers leaves it untyped
    assert head is not None  # noqa: S101 - a causal language model has one
    head.register_forward_pre_hook(lambda _module, _args: mark("loss/head"))
    loss_function = causal.loss_function

    def marked(logits: torch.Tensor, *args: object, **kwargs: object) -> torch.Tensor:
        mark("loss/function")
        loss: torch.Tensor = loss_function(logits, *args, **kwargs)
        _after_log_softmax(loss).register_prehook(lambda _grads: mark("backward/head"))
        return loss

    causal.loss_function = marked


def _after_log_softmax(loss: torch.Tensor) -> Node:
    """Return the node that backward reaches when the gradient of the log-softmax, the loss's own, is complete."""
    node = loss.grad_fn
    while node is not None and not node.name().startswith("LogSoftmaxBackward"):
        node = node.next_functions[0][0]
    following = None if node is None else node.next_functions[0][0]
    if following is None:
        message = "this model's loss is no cross entropy over its logits, so a cpu probe cannot tell the loss from backward"
        raise Refusal(FailureKind.UNSUPPORTED, message)
    return following
