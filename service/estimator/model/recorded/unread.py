"""Weights of a recorded model that its training passes do not read."""

from collections.abc import Iterator
from dataclasses import replace

from service.estimator.model.images import collect_names
from service.estimator.model.recorded.outer_layers import find_layer_name
from service.estimator.model.recorded.recorded_model import RecordedModel
from service.estimator.model.weights.tensors import Weight
from service.estimator.tape.programs.program import LinearCall, Operation, Straight, flatten
from service.estimator.tape.programs.recorded_pass import RecordedPass


def list_unread(recorded: RecordedModel) -> frozenset[str]:
    """Return the names of tensors without gradients.

    A tower of images is trainable, and a text's step leaves it idle: it has neither gradients nor
    states of an optimizer. So are experts of images within layers (ERNIE 4.5 VL). Nothing is unread
    where no pass trains.
    """
    passes = [
        part
        for name, part in recorded.passes.items()
        if part.loss is not None and "/frozen" not in name
    ]
    if not passes:
        return frozenset()
    instructions = [instruction for part in passes for instruction in _list_instructions(part)]
    called = {layer for part in passes for layer in _iterate_called(part)}
    trained = {
        gradient.parameter
        for instruction in instructions
        if isinstance(instruction, Operation)
        for node in instruction.nodes
        for gradient in node.gradients
    }
    ends = {recorded.embedding, f"{recorded.head}.weight", f"{recorded.head}.bias"}

    def is_unread(weight: Weight) -> bool:
        return weight.name not in trained | ends and weight.name.rpartition(".")[0] not in called

    layers = recorded.layers
    # A name in layers of several kinds is unread where none of them reads it.
    weights = (*recorded.outer_weights, *(w for layer in layers for w in layer.weights))
    linears = (*recorded.outer_linears, *(part for layer in layers for part in layer.linears))
    return collect_names(
        tuple(filter(is_unread, weights)),
        tuple(layer for layer in linears if layer.name not in called),
    )


def list_idle_layers(recorded: RecordedModel, unread: frozenset[str]) -> tuple[Weight, ...]:
    """Return the tensors of the layers of idle towers.

    Each layer is a sharded unit of its own, which nothing gathers.
    """
    return tuple(
        weight
        for weight in recorded.outer_weights
        if weight.name in unread and find_layer_name(weight.name)
    )


def _iterate_called(part: RecordedPass) -> Iterator[str]:
    """Yield the linear layers of a pass that its loss reads.

    After the layers of the stack one may be called for what no loss reads, as BERT's pooler in an
    embedding model.
    """
    for instruction in _list_instructions(replace(part, epilogue=(), tail=())):
        if isinstance(instruction, LinearCall):
            yield instruction.layer
    reached = {part.loss}
    for instruction in reversed(list(flatten((*part.epilogue, *part.tail)))):
        if isinstance(instruction, LinearCall) and instruction.output in reached:
            reached.add(instruction.x)
            yield instruction.layer
        elif isinstance(instruction, Operation):
            for node in reversed(instruction.nodes):
                if reached.intersection(node.outputs) - {None}:
                    reached |= {gradient.value for gradient in node.gradients}


def _list_instructions(part: RecordedPass) -> Iterator[Straight]:
    """Yield what a pass runs, in and outside of its layers."""
    yield from flatten((*part.prologue, *part.epilogue, *part.tail))
    for block in part.blocks:
        yield from flatten(block.instructions)
