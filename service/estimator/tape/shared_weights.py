"""Weights that several layers share.

One operation casts them, whichever layer asks, and collects their gradients.
"""

from service.estimator.tape.graph import Tape
from service.estimator.tape.ledger import Category, Storage
from service.estimator.tape.nodes import Node, Parameter, Value, as_value, count_bytes
from service.estimator.values.dtypes import DType


class SharedLayerState:
    """Weights and embeddings that layers share during one pass.

    ``weight_names`` are the shared weights, ``embeddings`` are read anew by each layer.
    ``checkpoint_inputs`` are tensors that an inner checkpoint of a layer holds from the first
    forward on, by the scope of the layer.
    """

    __slots__ = ("checkpoint_inputs", "embeddings", "weight_names")

    def __init__(self, weight_names: frozenset[str], embeddings: Value) -> None:
        """Start with the embeddings, which stay with the caller."""
        self.weight_names, self.embeddings = weight_names, embeddings
        self.checkpoint_inputs: dict[str, Storage] = {}


def cast_once(tape: Tape, parameter: Parameter, dtype: DType) -> Value:
    """Return a copy of a shared weight in ``dtype``.

    It is a new tensor, but always the output of the first cast. Autocast hands the cast of the
    first layer to all others (its weight cache). A checkpointed layer casts anew when it is
    recomputed, but the gradients go to the operation of the first forward, which waits for those of
    all layers.
    """
    source = as_value(parameter)
    copy = Value(
        tape.allocate(Category.GATHERED_WEIGHTS, count_bytes(source.numel, dtype)),
        source.numel,
        dtype,
    )
    if not (tape.builds_graph and parameter.trainable):
        return copy
    if parameter.cast_node is None:
        parameter.cast_node = Node(
            [], lambda _: tape.send(source, tape.scratch(source.numel, parameter.dtype))
        )
        parameter.pending_gradients += 1
        tape.nodes.append(parameter.cast_node)
    copy.node, copy.requires_grad = parameter.cast_node, True
    return copy
