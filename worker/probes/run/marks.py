"""Marks at the borders of a model's layers.

They divide forward, loss and backward so that each stretch is linear in depth.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, mse_loss
from torch.overrides import TorchFunctionMode
from transformers import PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer

from service.jobs.contract import FailureKind
from service.probing.refusal import Refusal
from worker.probes.run.recorder import mark

_LOSSES = (binary_cross_entropy_with_logits, cross_entropy, mse_loss)
_EMBEDDING, _MIDDLE, _HEAD = "embedding", "middle", "head"
"""What runs before the first layer, between two stacks, and after the last layer."""


@dataclass(slots=True)
class Marks:
    """Marks of a pass while it is under way.

    What backward computes again marks nothing of forward.
    """

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
        """Begin a part of the pass that is under way, if any."""
        if self.phase is not None:
            mark(f"{self.phase}/{part}")


def mark_layers(model: PreTrainedModel, num_layers: int) -> Marks:
    """Mark the borders of all layers of a model.

    An encoder's layers are first. Raises Refusal where there are not ``num_layers`` of them.
    """
    marks, stacks = Marks(), find_layer_stacks(model)
    if (num_found := sum(len(layers) for layers in stacks)) != num_layers:
        message = (
            f"found {num_found} layers in {type(model).__name__} where {num_layers} were asked for"
        )
        raise Refusal(FailureKind.UNSUPPORTED, message)
    first = 0
    for index, layers in enumerate(stacks):
        before = _EMBEDDING if index == 0 else _MIDDLE
        _mark_stack(
            marks,
            layers,
            first=first,
            before=before,
            after=_HEAD if index + 1 == len(stacks) else _MIDDLE,
        )
        first += len(layers)
    return marks


def find_layer_stacks(model: PreTrainedModel) -> tuple[Sequence[nn.Module], ...]:
    """Return the stacks of layers: an encoder's first, then the text model's.

    Only an encoder-decoder model has two.
    """
    decoder: nn.Module = model.get_decoder()  # type: ignore[no-untyped-call]  # transformers leaves it untyped
    if not model.config.is_encoder_decoder:
        # ModernBERT calls its head a decoder.
        return (_find_layers(model if isinstance(decoder, nn.Linear) else decoder),)
    encoder: nn.Module = model.get_encoder()
    return _find_layers(encoder), _find_layers(decoder)


def _find_layers(stack: nn.Module) -> Sequence[nn.Module]:
    for module in stack.modules():
        if (
            isinstance(module, nn.ModuleList)
            and len(module)
            and isinstance(module[0], GradientCheckpointingLayer)
        ):
            return list(module)
    message = (
        f"found no stack of layers in {type(stack).__name__}, so a probe cannot tell one layer "
        "from another"
    )
    raise Refusal(FailureKind.UNSUPPORTED, message)


def _mark_stack(
    marks: Marks, layers: Sequence[nn.Module], *, first: int, before: str, after: str
) -> None:
    names = [before, *(f"layer:{first + place}" for place in range(len(layers))), after]
    layers[0].register_forward_pre_hook(_make_entry_hook(marks, names[1], before), with_kwargs=True)
    for layer, name, following in zip(layers, names[1:], names[2:], strict=False):
        layer.register_forward_hook(_make_exit_hook(marks, name, following))


def _make_entry_hook(
    marks: Marks, name: str, before: str
) -> Callable[[nn.Module, tuple[Any, ...], dict[str, Any]], None]:
    def hook(_layer: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        if marks.phase is not None:
            _mark_gradient(_find_hidden_states(args, kwargs), before)
            marks.reach(name)

    return hook


def _make_exit_hook(
    marks: Marks, name: str, following: str
) -> Callable[[nn.Module, tuple[Any, ...], Any], None]:
    def hook(_layer: nn.Module, _args: tuple[Any, ...], output: object) -> None:
        if marks.phase is not None:
            _mark_gradient(output[0] if isinstance(output, tuple) else output, name)
            marks.reach(following)

    return hook


def _find_hidden_states(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> object:
    return next(
        (value for value in (*args, *kwargs.values()) if isinstance(value, torch.Tensor)), None
    )


def _mark_gradient(tensor: object, part: str) -> None:
    """Mark when the gradient of ``tensor`` is complete.

    That is where backward reaches the function that made it.
    """
    if isinstance(tensor, torch.Tensor) and tensor.grad_fn is not None:
        tensor.grad_fn.register_prehook(lambda _grads: mark(f"backward/{part}"))


def mark_head(model: PreTrainedModel) -> None:
    """Mark the beginning of the loss at the head.

    The head runs behind the model without it: fused losses never make its logits.
    """
    if model.base_model is not model:
        model.base_model.register_forward_hook(lambda _module, _args, _output: mark("loss/head"))
    # OPT calls its decoder past the model around it.
    head = model.get_output_embeddings()  # type: ignore[no-untyped-call]  # transformers leaves it untyped
    if head is not None:
        head.register_forward_pre_hook(lambda _module, _args: mark("loss/head"))


class LossMarks(TorchFunctionMode):
    """Marks the loss within a forward pass and in backward.

    The mark in backward is where the loss has its gradient: after the log-softmax.
    """

    def __init__(self) -> None:
        """Begin to look for losses."""
        super().__init__()
        self._has_loss = False

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> object:
        """Run ``func`` between marks where it is the first loss."""
        del types
        if func not in _LOSSES or self._has_loss:
            return func(*args, **(kwargs or {}))
        self._has_loss = True
        mark("loss/function")
        _mark_gradient(args[0], _HEAD)
        return func(*args, **(kwargs or {}))

    def check(self) -> None:
        """Raise Refusal where no loss was found."""
        if not self._has_loss:
            message = (
                "this model's loss is neither a cross entropy nor a squared error of its outputs, "
                "so a probe cannot tell the loss from backward"
            )
            raise Refusal(FailureKind.UNSUPPORTED, message)
