"""Attention with a bias tensor on its scores.

The bias is learned positions (T5), or zeros in their place.
"""

from service.estimator.tape.graph import Tape
from service.estimator.tape.ledger import Storage
from service.estimator.tape.nodes import Node, Value, Work
from service.estimator.tape.ops.attention_heads import Heads
from service.estimator.tape.ops.attention_masks import allocate_row_sums
from service.estimator.tape.ops.elementwise import add, chain, dropout, multiply_scalar, softmax
from service.estimator.tape.ops.products import copy_contiguous, multiply_heads
from service.estimator.tape.ops.views import expand
from service.estimator.tape.sizes import Size
from service.estimator.values.dtypes import DType


def run_biased_efficient_attention(
    tape: Tape, query: Value, key: Value, value: Value, bias: Value, heads: Heads
) -> Value:
    """Return memory-efficient attention under a bias.

    It keeps the bias beside query, key, value, output and one fp32 per row. The bias is a view of
    the size of all scores, and so its gradient is as large as them before it is summed over what
    the view repeats (aten/native/transformers/cuda/attention_backward.cu).
    """
    expanded_bias = expand(tape, bias, heads.scores)
    parts = (query, key, value, expanded_bias)
    lse = allocate_row_sums(tape, parts, heads)

    def backward(_: Storage) -> None:
        grads = [
            (part, tape.scratch(part.numel, part.dtype)) for part in parts if part.requires_grad
        ]
        delta = tape.scratch(heads.rows, DType.FP32)
        tape.release(delta)
        for part, grad in grads:
            tape.send(part, grad)

    output = tape.emit(
        query.numel,
        query.dtype,
        inputs=parts,
        saves=(query, key, value, expanded_bias, lse),
        saves_output=True,
        work=Work.ATTENTION,
        backward=backward,
    )
    tape.free(lse, expanded_bias)
    return output


def run_biased_eager_attention(
    tape: Tape,
    parts: tuple[Value, Value, Value],
    bias: Value,
    heads: Heads,
    *,
    mask: DType | None,
    copies: bool,
) -> tuple[Value, Value]:
    """Return attention as T5's code writes it, and its weights.

    ``mask`` is the dtype of one that is added after the bias, where there is one. ``copies``:
    products copy their sides, which lie token after token; those of a cache lie head after head.
    """
    query, key, value = parts
    side = copy_contiguous if copies else Tape.alias
    product = multiply_heads(tape, query, key, heads.scores, reads=(side, side))
    scores = chain(tape, product, multiply_scalar)
    scores = chain(tape, scores, lambda t, x: add(t, x, bias))
    if mask is not None:
        unread = Value(None, heads.scores, mask)
        scores = chain(tape, scores, lambda t, x: add(t, x, unread))
    weights = chain(tape, chain(tape, scores, softmax), lambda t, x: dropout(t, x, heads.dropout))
    mixed = multiply_heads(tape, weights, value, query.numel, reads=(Tape.alias, side))
    return chain(tape, mixed, copy_contiguous), weights


def align_bias(tape: Tape, x: Value, padded: Size) -> Value:
    """Return a view of a copy of ``x`` with padded rows.

    They have the kernel's alignment (``pad_bias``, ATen ``transformers/attention.cpp``). Its
    gradient is put into zeros as large, and cut out of these again.
    """
    made = tape.emit(
        padded,
        x.dtype,
        inputs=(x,),
        backward=lambda _: tape.send(x, tape.scratch(x.numel, x.dtype)),
    )
    view = Value(made.storage, x.numel, x.dtype)
    if made.requires_grad:
        node = Node([], lambda _: tape.send(made, tape.scratch(padded, x.dtype)))
        view.node, view.requires_grad = tape.append(node), True
    return view


def where(tape: Tape, condition: Value, x: Value, numel: Size) -> Value:
    """Return ``torch.where(condition, x, c)`` with ``numel`` elements.

    The condition is kept, the gradient made anew.
    """

    def backward(_: Storage) -> None:
        grad = tape.scratch(numel, x.dtype)
        if x.numel == numel:
            tape.send(x, grad)
            return
        reduced = tape.scratch(x.numel, x.dtype)
        tape.release(grad)
        tape.send(x, reduced)

    return tape.emit(numel, x.dtype, inputs=(x,), saves=(condition,), backward=backward)


def copy_to_kernel_layout(tape: Tape, x: Value) -> Value:
    """Return a copy in the layout that kernels need.

    It hands its gradient on as it is.
    """
    return tape.emit(
        x.numel, x.dtype, inputs=(x,), backward=lambda grad: tape.send(x, tape.hold(grad))
    )
