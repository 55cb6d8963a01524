"""Depth at which a model shows all kinds of its layers."""

import re
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass

from torch import nn
from transformers import PreTrainedConfig

_MIN_LAYERS = 3
"""Layers that show a first, a middle and a last one."""
_FRACTIONS = re.compile("drop|rate|prob|scal")
"""Names of fields that are multiplied with, or drawn against."""
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
    """Return the classes, switches and shapes of a layer, without its place.

    Of a rate at which something is dropped, and of a scale, only what decides which operators run.
    """
    modules = tuple(
        (
            name,
            type(module).__name__,
            tuple(
                (field, _reduce(field, value))
                for field, value in sorted(vars(module).items())
                if isinstance(value, _SCALARS) and not _is_place(field)
            ),
        )
        for name, module in layer.named_modules()
    )
    shapes = tuple((name, tuple(weight.shape)) for name, weight in layer.named_parameters())
    return (modules, shapes)


def _reduce(field: str, value: object) -> object:
    """Return a field as it decides what a layer runs.

    Rates of stochastic depth grow from layer to layer, and MiniCPM3 scales its residuals by the
    number of its layers: such fractions have no part in sizes, but for none and all.
    """
    is_fraction = isinstance(value, float) and value not in {0.0, 1.0}
    return "a fraction" if is_fraction and _FRACTIONS.search(field) else value


def _is_place(field: str) -> bool:
    """Return whether a field tells a layer's place."""
    return "idx" in field or "index" in field or field in {"layer_id", "num_hidden_layers"}


def list_needed(signatures: Sequence[Signature]) -> Iterator[tuple[int, ...]]:
    """Yield choices of layers that show every kind.

    One kind is shown again: few layers first, then as many of the first as need be.
    """
    first_places = [list(signatures).index(signature) for signature in dict.fromkeys(signatures)]
    last = max(first_places, default=0)
    depth = min(len(signatures), max(_MIN_LAYERS, last + 2))
    more = max(_MIN_LAYERS - len(first_places), 1)
    few = (*first_places, *range(last + 1, last + 1 + more))
    if len(few) < depth and few[-1] < len(signatures):
        yield few
    yield tuple(range(depth))


def differs_in_depth_alone(
    model: nn.Module, short: nn.Module, stack: Stack, places: Sequence[int]
) -> bool:
    """Return whether a shortened model has the layers at ``places``.

    An encoder beside the stack may have been shortened in its place.
    """
    layers = dict(short.named_modules()).get(stack.prefix.removesuffix("."))
    return (
        isinstance(layers, nn.ModuleList)
        and tuple(map(_sign, layers)) == tuple(stack.signatures[place] for place in places)
        and _list_outer(model, stack) == _list_outer(short, stack)
    )


def _list_outer(model: nn.Module, stack: Stack) -> list[tuple[str, tuple[int, ...]]]:
    """Return the weights outside of a stack, with their shapes."""
    return [
        (name, tuple(weight.shape))
        for name, weight in model.named_parameters()
        if not name.startswith(stack.prefix)
    ]


def shorten(hf_config: PreTrainedConfig, places: Sequence[int]) -> PreTrainedConfig:
    """Return the config of the layers at ``places`` alone.

    Gemma 4 gives some of them fields of their own, by number.
    """
    shortened = deepcopy(hf_config)
    text = shortened.get_text_config()
    full = text.num_hidden_layers
    own_fields = text.to_dict().get("per_layer_config") or {}
    text.num_hidden_layers = len(places)
    for field, value in list(vars(text).items()):
        if isinstance(value, list) and len(value) == full:
            setattr(text, field, [value[place] for place in places])
    if own_fields:
        by_place = {int(place): fields for place, fields in own_fields.items()}
        text.per_layer_config = {
            number: by_place[place] for number, place in enumerate(places) if place in by_place
        }
    return shortened
