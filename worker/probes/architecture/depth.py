"""Depth at which a model shows all kinds of its layers."""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass

from torch import nn
from transformers import PreTrainedConfig

_MIN_LAYERS = 3
"""Layers that show a first, a middle and a last one."""
_SCALARS = (bool, int, float, str, tuple, type(None))
Signature = tuple[object, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """The longest list of layers, each with its signature."""

    prefix: str
    signatures: tuple[Signature, ...]


def find_stack(model: nn.Module) -> Stack:
    """Return the list of layers with the most parameters."""
    best, largest = ("", nn.ModuleList()), -1
    for name, module in model.named_modules():
        if not isinstance(module, nn.ModuleList) or any(p.isdigit() for p in name.split(".")):
            continue
        size = sum(weight.numel() for weight in module.parameters())
        if size > largest:
            best, largest = (name, module), size
    name, layers = best
    return Stack(prefix=f"{name}.", signatures=tuple(_sign(layer) for layer in layers))


def _sign(layer: nn.Module) -> Signature:
    """Return the classes, switches and shapes of a layer, without its place."""
    modules = tuple(
        (
            name,
            type(module).__name__,
            tuple(
                (field, value)
                for field, value in sorted(vars(module).items())
                if isinstance(value, _SCALARS) and not _is_place(field)
            ),
        )
        for name, module in layer.named_modules()
    )
    shapes = tuple((name, tuple(weight.shape)) for name, weight in layer.named_parameters())
    return (modules, shapes)


def _is_place(field: str) -> bool:
    return "idx" in field or "index" in field or field == "layer_id"


def count_needed(signatures: Sequence[Signature]) -> int:
    """Return how many of the first layers show every kind.

    One is repeated among them.
    """
    first_places = [list(signatures).index(signature) for signature in dict.fromkeys(signatures)]
    return min(len(signatures), max(_MIN_LAYERS, max(first_places, default=0) + 2))


def differs_in_depth_alone(model: nn.Module, short: nn.Module, stack: Stack) -> bool:
    """Return whether a shortened model lacks only its later layers.

    An encoder beside the stack may have been shortened in its place.
    """
    depth = count_needed(stack.signatures)
    first = find_stack(short)
    return (
        first.prefix == stack.prefix
        and first.signatures == stack.signatures[:depth]
        and _list_outer(model, stack) == _list_outer(short, stack)
    )


def _list_outer(model: nn.Module, stack: Stack) -> list[tuple[str, tuple[int, ...]]]:
    """Return the weights outside of a stack, with their shapes."""
    return [
        (name, tuple(weight.shape))
        for name, weight in model.named_parameters()
        if not name.startswith(stack.prefix)
    ]


def shorten(hf_config: PreTrainedConfig, depth: int) -> PreTrainedConfig:
    """Return the config of the first layers alone."""
    shortened = deepcopy(hf_config)
    text = shortened.get_text_config()
    full = text.num_hidden_layers
    text.num_hidden_layers = depth
    for field, value in list(vars(text).items()):
        if isinstance(value, list) and len(value) == full:
            setattr(text, field, value[:depth])
    return shortened
