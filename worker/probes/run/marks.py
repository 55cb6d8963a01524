"""Divides forward, loss and backward of a model at the borders of its layers, so that each stretch is linear in depth."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.overrides import TorchFunctionMode
from transformers import PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer

from service.jobs.contract import FailureKind
from service.probing.refusal import Refusal
from worker.probes.run.recorder import mark

_EMBEDDING, _MIDDLE, _HEAD = "embedding", "middle", "head"
"""What runs before the first layer, between two stacks, and after the last layer."""


@dataclass(slots=True)
class Marks:
    """Marks a pass while it is under way: what backward computes again marks nothing of forward."""

    phase: str | None = None

    @contextmanager
    def during(self, phase: str) -> Iterator[None]:
        """Mark the layers of a pass as stretches of ``phase``."""
        self.phase = phase
        mark(f"{phase}/{_EMBEDDING}")
        try:
            yield
        finally:
            self.phase = None

    def reach(self, part: str) -> None:
        """Begin a part of the pass that is under way, if there is one."""
        if self.phase is not None:
            mark(f"{self.phase}/{part}")


def mark_layers(model: PreTrainedModel, num_layers: int) -> Marks:
    """Mark the borders of all layers of a model, an encoder's first; ``num_layers`` says how many there must be."""
    marks, stacks = Marks(), layer_stacks(model)
    if (found := sum(len(layers) for layers in stacks)) != num_layers:
        message = f"found {found} layers in {type(model).__name__} where {num_layers} were asked for"
        raise Refusal(FailureKind.UNSUPPORTED, message)
    first = 0
    for index, layers in enumerate(stacks):
        before = _EMBEDDING if index == 0 else _MIDDLE
        _mark_stack(marks, layers, first=first, before=before, after=_HEAD if index + 1 == len(stacks) else _MIDDLE)
        first += len(layers)
    return marks


def layer_stacks(model: PreTrainedModel) -> tuple[Sequence[nn.Module], ...]:
    """Return the layers of an encoder, where the model has one beside its decoder, and of the text model."""
    decoder: nn.Module = model.get_decoder()  # type: ignore[no-untyped-call]  # transformers leaves it untyped
    if not model.config.is_encoder_decoder:
        # ModernBERT calls its head a decoder.
        return (_layers_of(model if isinstance(decoder, nn.Linear) else decoder),)
    encoder: nn.Module = model.get_encoder()
    return _layers_of(encoder), _layers_of(decoder)


def _layers_of(stack: nn.Module) -> Sequence[nn.Module]:
    for module in stack.modules():
        if isinstance(module, nn.ModuleList) and len(module) and isinstance(module[0], GradientCheckpointingLayer):
            return list(module)
    message = f"found no stack of layers in {type(stack).__name__}, so a probe cannot tell one layer from another"
    raise Refusal(FailureKind.UNSUPPORTED, message)


def _mark_stack(marks: Marks, layers: Sequence[nn.Module], *, first: int, before: str, after: str) -> None:
    names = [before, *(f"layer:{first + place}" for place in range(len(layers))), after]
    layers[0].register_forward_pre_hook(_entering(marks, names[1], before), with_kwargs=True)
    for layer, own, following in zip(layers, names[1:], names[2:], strict=False):
        layer.register_forward_hook(_leaving(marks, own, following))


def _entering(marks: Marks, own: str, before: str) -> Callable[[nn.Module, tuple[Any, ...], dict[str, Any]], None]:
    def hook(_layer: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        if marks.phase is not None:
            _mark_gradient(_hidden_states(args, kwargs), before)
            marks.reach(own)

    return hook


def _leaving(marks: Marks, own: str, following: str) -> Callable[[nn.Module, tuple[Any, ...], Any], None]:
    def hook(_layer: nn.Module, _args: tuple[Any, ...], output: object) -> None:
        if marks.phase is not None:
            _mark_gradient(output[0] if isinstance(output, tuple) else output, own)
            marks.reach(following)

    return hook


def _hidden_states(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> object:
    return next((value for value in (*args, *kwargs.values()) if isinstance(value, torch.Tensor)), None)


def _mark_gradient(tensor: object, part: str) -> None:
    """Mark the moment when the gradient of ``tensor`` is complete: backward reaches what made it."""
    if isinstance(tensor, torch.Tensor) and tensor.grad_fn is not None:
        tensor.grad_fn.register_prehook(lambda _grads: mark(f"backward/{part}"))


def mark_head(model: PreTrainedModel) -> None:
    """Begin the loss where the head begins, behind the model without it: fused losses never make its logits."""
    if model.base_model is not model:
        model.base_model.register_forward_hook(lambda _module, _args, _output: mark("loss/head"))
    # OPT calls its decoder past the model around it.
    head = model.get_output_embeddings()  # type: ignore[no-untyped-call]  # transformers leaves it untyped
    if head is not None:
        head.register_forward_pre_hook(lambda _module, _args: mark("loss/head"))


class LossMarks(TorchFunctionMode):
    """Marks where a loss begins inside of a forward pass, and where backward has its gradient: after the log-softmax."""

    def __init__(self) -> None:
        """Begin to look for cross entropies."""
        super().__init__()
        self._found = False

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> object:
        """Run ``func`` between marks where it is the first cross entropy."""
        del types
        if func is not cross_entropy or self._found:
            return func(*args, **(kwargs or {}))
        self._found = True
        mark("loss/function")
        _mark_gradient(args[0], _HEAD)
        return func(*args, **(kwargs or {}))

    def check(self) -> None:
        """Raise Refusal where no loss was found."""
        if not self._found:
            message = "this model's loss is no cross entropy over its logits, so a probe cannot tell the loss from backward"
            raise Refusal(FailureKind.UNSUPPORTED, message)
