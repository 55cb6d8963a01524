"""Heads of other tasks than a language model's, and their losses.

transformers 5.23: ``modeling_layers.py``, ``loss/loss_utils.py`` and the classes of encoders. A
model without a head is trained as sentence-transformers 6.2 does: its hidden states are averaged
(``modules/pooling.py``) and held against an embedding for each sequence (``losses/mse.py``).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from service.estimator.model.architecture import Architecture
from service.estimator.model.recording import Recording
from service.estimator.model.task_head import Pooling, TaskHead
from service.estimator.tape import sizes
from service.estimator.tape.ledger import Category
from service.estimator.tape.nodes import Node, Value
from service.estimator.tape.ops.loss.losses import (
    INDEX_BYTES,
    compute_unshifted_loss,
    cross_entropy,
)
from service.estimator.tape.ops.loss.pooling import (
    Averaging,
    find_last_tokens,
    pool_mean,
    take_last,
)
from service.estimator.tape.ops.loss.task_losses import (
    add_scalars,
    compute_binary_loss,
    compute_squared_loss,
    copy_column,
)
from service.estimator.tape.ops.products import allocate_integers, split
from service.estimator.tape.ops.views import narrow
from service.estimator.tape.pass_shape import PassShape
from service.estimator.tape.sizes import Size
from service.estimator.values.dtypes import DType
from service.estimator.values.heads import Head, Problem

_ROWS = PassShape(decoding=True)
"""One row for each sequence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOutputs:
    """Outputs of a head.

    ``scores`` is what the model returns, ``names`` are tensors that its forward has names for until
    its end.
    """

    scores: Value
    names: tuple[Value, ...] = ()


def list_task_labels(ctx: Recording, model: Architecture, task: TaskHead) -> list[Size]:
    """Return the bytes of a batch's labels, which outlive its forward."""
    weights = ctx.settings.dtype.bytes_per_element
    if task.kind is Head.TOKEN_CLASSIFICATION:
        return [ctx.shape.tokens(INDEX_BYTES)]
    if task.kind is Head.QUESTION_ANSWERING:
        return [sizes.per_sequence(INDEX_BYTES)] * 2
    if task.kind is Head.NONE:
        return [sizes.per_sequence(model.spec.hidden_size * weights)]
    if task.problem is Problem.SINGLE_LABEL:
        return [sizes.per_sequence(INDEX_BYTES)]
    return [sizes.per_sequence(task.num_labels * weights)]


def record_task(ctx: Recording, model: Architecture, task: TaskHead, hidden: Value) -> TaskOutputs:
    """Record the head; ``hidden`` stays with the caller."""
    tape = ctx.tape
    source = tape.alias(hidden) if model.finish_hidden is None else model.finish_hidden(ctx, hidden)
    if task.kind is Head.NONE:
        unread = () if task.transform is None else _record_unread(ctx, model, task, source)
        return TaskOutputs(scores=source, names=unread)
    if task.pooling in {Pooling.FIRST, Pooling.MEAN}:
        row = _pool(ctx, model, task, source)
        tape.free(source)
        with _record_rows(ctx):
            return _record_output(ctx, model, task, row)
    outputs = _record_output(ctx, model, task, source)
    if task.pooling is Pooling.ALL:
        return outputs
    last, names = find_last_tokens(tape)
    chosen = take_last(tape, outputs.scores, last, sizes.per_sequence(task.num_labels))
    return TaskOutputs(scores=chosen, names=(outputs.scores, last, *names, *outputs.names))


def record_task_loss(
    ctx: Recording, model: Architecture, task: TaskHead, outputs: TaskOutputs
) -> tuple[Value, tuple[Value, ...]]:
    """Record the loss; returns it and what the model returns beside it.

    The outputs are dropped but for those.
    """
    loss, returned = _LOSSES[task.kind](ctx, model, task, outputs)
    dropped = [value for value in (outputs.scores, *outputs.names) if value not in returned]
    ctx.tape.free(*dropped)
    return loss, returned


def _record_output(
    ctx: Recording, model: Architecture, task: TaskHead, source: Value
) -> TaskOutputs:
    """Record the steps and the output layer; ``source`` is dropped."""
    tape = ctx.tape
    read = tape.alias(source) if task.transform is None else task.transform(ctx, source)
    tape.free(source)
    per_token = task.kind is not Head.SEQUENCE_CLASSIFICATION
    category = Category.LOGITS if per_token else Category.ACTIVATIONS
    scores = ctx.linear(model.head, read, "", category=category)
    if task.names_input:
        return TaskOutputs(scores=scores, names=(read,))
    tape.free(read)
    return TaskOutputs(scores=scores)


def _record_unread(
    ctx: Recording, model: Architecture, task: TaskHead, source: Value
) -> tuple[Value, ...]:
    """Record a pooler whose output no loss reads.

    No backward comes by its graph, and what that saved lives as long as the output.
    """
    assert task.transform is not None  # noqa: S101 - whoever asks has looked
    tape = ctx.tape
    first_node = len(tape.nodes)
    row = _pool(ctx, model, task, source)
    with _record_rows(ctx):
        pooled = task.transform(ctx, row)
    tape.free(row)
    unvisited = tape.nodes[first_node:]
    del tape.nodes[first_node:]
    saved = [storage for node in unvisited if isinstance(node, Node) for storage in node.saved]
    return (pooled, *(Value(storage, sizes.ZERO, DType.FP32) for storage in saved))


def _pool(ctx: Recording, model: Architecture, task: TaskHead, source: Value) -> Value:
    """Return one row for each sequence."""
    if task.pooling is Pooling.MEAN:
        averaging = Averaging(mask_bytes=int(not ctx.padded), casts=False, in_fp32=False)
        return pool_mean(ctx.tape, source, model.spec.hidden_size, averaging)
    return narrow(ctx.tape, source, sizes.per_sequence(model.spec.hidden_size))


@contextmanager
def _record_rows(ctx: Recording) -> Iterator[None]:
    """Record over one row for each sequence in place of its tokens."""
    before, ctx.shape = ctx.shape, _ROWS
    yield
    ctx.shape = before


_Result = tuple[Value, tuple[Value, ...]]


def _compare_embeddings(
    ctx: Recording, model: Architecture, task: TaskHead, outputs: TaskOutputs
) -> _Result:
    del task
    tape = ctx.tape
    averaging = Averaging(mask_bytes=0 if ctx.padded else INDEX_BYTES, casts=True, in_fp32=True)
    pooled = pool_mean(tape, outputs.scores, model.spec.hidden_size, averaging)
    loss = compute_squared_loss(tape, pooled)
    tape.free(pooled)
    return loss, (outputs.scores, *outputs.names)


def _score_sequences(
    ctx: Recording, model: Architecture, task: TaskHead, outputs: TaskOutputs
) -> _Result:
    del model
    tape, scores = ctx.tape, outputs.scores
    if task.problem is Problem.REGRESSION:
        return compute_squared_loss(tape, scores), (scores,)
    if task.problem is Problem.MULTI_LABEL:
        return compute_binary_loss(tape, scores), (scores,)
    return compute_unshifted_loss(tape, scores, upcast=False), (scores,)


def _score_tokens(
    ctx: Recording, model: Architecture, task: TaskHead, outputs: TaskOutputs
) -> _Result:
    del model
    loss = compute_unshifted_loss(ctx.tape, outputs.scores, upcast=task.upcasts)
    return loss, (outputs.scores,)


def _score_ends(
    ctx: Recording, model: Architecture, task: TaskHead, outputs: TaskOutputs
) -> _Result:
    """Record the losses of where answers begin and end.

    Each is over a copy of a column, whose labels are clamped to the sequence.
    """
    del model, task
    tape, column = ctx.tape, ctx.shape.tokens(1)
    columns = split(tape, tape.alias(outputs.scores), (column, column))
    copies = tuple(copy_column(tape, x) for x in columns)
    tape.free(*columns)
    labels = [allocate_integers(tape, sizes.per_sequence(1)) for _ in copies]
    losses = [
        cross_entropy(tape, copy, label, last=copy is copies[0])
        for copy, label in zip(copies, labels, strict=True)
    ]
    loss = add_scalars(tape, losses)
    tape.free(*labels)
    return loss, copies


_LOSSES: dict[Head, Callable[[Recording, Architecture, TaskHead, TaskOutputs], _Result]] = {
    Head.NONE: _compare_embeddings,
    Head.SEQUENCE_CLASSIFICATION: _score_sequences,
    Head.TOKEN_CLASSIFICATION: _score_tokens,
    Head.QUESTION_ANSWERING: _score_ends,
}
