"""Multi-token prediction layers (``core/transformer/multi_token_prediction.py``).

Each looks up the next token's embedding, normalises it and the hidden state, projects both to one
hidden state, runs a layer of the model and normalises its output; the head makes logits of each
(arXiv:2412.19437, section 2.2).
"""

from collections.abc import Callable, Sequence
from functools import partial

from service.estimator.backends.megatron.layers import record_layer
from service.estimator.backends.megatron.operations import BF16, apply_norm, rearrange, tokens
from service.estimator.backends.megatron.shape import RankShape, Switches
from service.estimator.tape import sizes
from service.estimator.tape.graph import Tape
from service.estimator.tape.ledger import Storage
from service.estimator.tape.nodes import Node, Value
from service.estimator.values.dtypes import DType

Embed = Callable[[], Value]


def record_predictors(
    tape: Tape, hidden: Value, shape: RankShape, switches: Switches, count: int, embed: Embed
) -> list[Value]:
    """Return the hidden states that the head takes.

    They are the model's own and each predictor's. ``hidden`` is dropped; the states are parts of
    one tensor.
    """
    states = [hidden]
    for _ in range(count):
        states.append(_record_predictor(tape, states[-1], shape, switches, embed))
    joined = tape.emit(
        sizes.scale(hidden.numel, count + 1),
        BF16,
        inputs=states,
        backward=partial(_send_to_all, tape, states),
    )
    tape.free(*states)
    parts = [_take_part(tape, joined, hidden.numel) for _ in states]
    tape.free(joined)
    return parts


def _send_to_all(tape: Tape, states: Sequence[Value], grad: Storage) -> None:
    for state in states:
        tape.send(state, tape.hold(grad), is_view=True)


def add_losses(tape: Tape, hidden: Value, losses: Sequence[Value]) -> Value:
    """Return the hidden state whose backward starts that of other losses too.

    Nothing is copied (``MTPLossAutoScaler``).
    """
    node = Node([], lambda grad: _send_to_losses(tape, grad, hidden, losses))
    y = Value(hidden.storage, hidden.numel, hidden.dtype, tape.append(node))
    if hidden.storage is not None:
        tape.hold(hidden.storage)
    return y


def _send_to_losses(tape: Tape, grad: Storage, hidden: Value, losses: Sequence[Value]) -> None:
    for loss in losses:
        tape.send(loss, tape.scratch(loss.numel, DType.FP32))
    tape.send(hidden, tape.hold(grad))


def _take_part(tape: Tape, joined: Value, numel: sizes.Size) -> Value:
    """Return a view of a part; its backward makes all gradients."""
    node = Node([], lambda _: tape.send(joined, tape.scratch(joined.numel, BF16)))
    if joined.storage is not None:
        tape.hold(joined.storage)
    return Value(joined.storage, numel, BF16, tape.append(node))


def _record_predictor(
    tape: Tape, hidden: Value, shape: RankShape, switches: Switches, embed: Embed
) -> Value:
    embedded = embed()
    normed = (
        apply_norm(tape, embedded, shape.statistics),
        apply_norm(tape, hidden, shape.statistics),
    )
    tape.free(embedded)
    both = _concatenate(tape, *normed)
    tape.free(*normed)
    x = _project(tape, both, shape)
    tape.free(both)
    sparse = shape.experts is not None
    y = record_layer(tape, x, shape, switches, sparse=sparse)
    z = apply_norm(tape, y, shape.statistics)
    tape.free(y)
    return z


def _concatenate(tape: Tape, left: Value, right: Value) -> Value:
    def backward(grad: Storage) -> None:
        tape.send(left, tape.hold(grad), is_view=True)
        tape.send(right, tape.hold(grad), is_view=True)

    return tape.emit(sizes.scale(left.numel, 2), BF16, inputs=(left, right), backward=backward)


def _project(tape: Tape, both: Value, shape: RankShape) -> Value:
    """Return the projection, whose columns are split and gathered again.

    Under sequence parallelism its input is gathered as well, and its output scattered.
    """
    shards = shape.sequence_shards
    full = sizes.scale(both.numel, shards)

    def backward(_: Storage) -> None:
        gathered = [tape.scratch(full, BF16)] if shards > 1 else []
        grad = tape.scratch(full, BF16)
        tape.release(*gathered)
        tape.send(both, grad)

    gathered = [tape.scratch(full, BF16)] if shards > 1 else []
    columns = tape.emit(
        tokens(shape.hidden // shape.tensor_parallel),
        BF16,
        inputs=(both,),
        saves=(both,),
        backward=backward,
    )
    tape.release(*gathered)
    if shape.tensor_parallel == 1:
        return columns
    gathered_columns = rearrange(tape, columns, tokens(shape.hidden))
    return (
        rearrange(tape, gathered_columns, tokens(shape.hidden // shards))
        if shards > 1
        else gathered_columns
    )
