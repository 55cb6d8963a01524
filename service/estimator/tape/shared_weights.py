"""Weights that several layers have in common: one operation casts them, whichever layer asks, and collects their gradients."""

from service.estimator.tape.graph import Tape
from service.estimator.tape.ledger import Category, Storage
from service.estimator.tape.nodes import Node, Parameter, Value, bytes_of, value_of
from service.estimator.values.dtypes import DType


class Common:
    """What layers have in common during one pass: weights, by their ``names``, and the embeddings that each reads anew.

    ``handed`` are tensors that an inner checkpoint of a layer holds from the first forward on, by the scope of the layer.
    """

    __slots__ = ("embedded", "handed", "names")

    def __init__(self, names: frozenset[str], embedded: Value) -> None:
        """Start with the embeddings, which stay with the caller."""
        self.names, self.embedded = names, embedded
        self.handed: dict[str, Storage] = {}


def cast_once(tape: Tape, parameter: Parameter, dtype: DType) -> Value:
    """Return a copy of a shared weight in ``dtype``: a new tensor, but always the output of the first cast.

    Autocast hands the cast of the first layer to all others (its weight cache). A checkpointed layer casts anew when it is
    recomputed, but the gradients go to the operation of the first forward, which waits for those of all layers.
    """
    source = value_of(parameter)
    copy = Value(tape.allocate(Category.GATHERED_WEIGHTS, bytes_of(source.numel, dtype)), source.numel, dtype)
    if not (tape.records and parameter.trainable):
        return copy
    if parameter.casting is None:
        parameter.casting = Node([], lambda _: tape.send(source, tape.scratch(source.numel, parameter.dtype)))
        parameter.pending += 1
        tape.nodes.append(parameter.casting)
    copy.node, copy.requires_grad = parameter.casting, True
    return copy
