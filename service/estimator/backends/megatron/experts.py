"""Experts of one rank (megatron/core/transformer/moe).

A router, dispatch by all-to-all or by gathering every token, and products in a group or one after
the other.
"""

from service.estimator.backends.megatron.operations import (
    BF16,
    Products,
    allocate_saved,
    apply_activation,
    apply_norm,
    build_products,
    column_linear,
    rearrange,
    row_linear,
    tokens,
)
from service.estimator.backends.megatron.shape import ExpertShape, RankShape, Switches
from service.estimator.tape import sizes
from service.estimator.tape.graph import Tape
from service.estimator.tape.ledger import Storage
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops.elementwise import add
from service.estimator.values.dtypes import DType

ROUTER_BYTES = 4 + 4 + 4 + 1
"""Bytes per token and expert: fp32 scores, their copy for the balancing loss, fp32 probabilities
and a boolean map of the choice.
"""
INDEX_BYTES = 8
"""Bytes of the place of a row, a 64-bit integer."""
SELECTION_BYTES = 2 + 1
"""Bytes per gathered token and local expert that the choice of its probabilities keeps: them, and a
boolean map.
"""


def record_sparse_mlp(tape: Tape, x: Value, shape: RankShape, switches: Switches) -> Value:
    """Record the experts and return their share of the residual.

    Tokens are taken to be spread evenly over the experts.
    """
    experts = shape.experts
    assert experts is not None  # noqa: S101 - a sparse layer has experts
    normalised = apply_norm(tape, x, shape.statistics)
    routing = _route(tape, normalised, experts, shape.sequence_shards)
    shared = (
        _apply_shared_experts(tape, normalised, shape, experts, switches)
        if experts.shared_inner
        else None
    )
    y = (
        _gather_tokens(tape, normalised, shape, experts, switches)
        if switches.gathers_tokens
        else _exchange_rows(tape, normalised, shape, experts, switches)
    )
    if shared is not None:
        summed = add(tape, y, shared)
        tape.free(y, shared)
        y = summed
    tape.free(normalised, routing)
    return y


def _route(tape: Tape, x: Value, experts: ExpertShape, sequence_shards: int) -> Value:
    size = tokens(max(1, ROUTER_BYTES * experts.num_experts // sequence_shards))
    return tape.emit(
        size, DType.FP8, inputs=(x,), saves=(x,), saves_output=True, backward=lambda _: None
    )


def _exchange_rows(
    tape: Tape, x: Value, shape: RankShape, experts: ExpertShape, switches: Switches
) -> Value:
    """Return the routed experts' output of each token.

    Rows are permuted, sent, sorted by expert, and taken all the way back.
    """
    sent = sizes.scale(x.numel, experts.top_k)
    gathered = sizes.scale(sent, experts.copies)
    rows = rearrange(tape, tape.alias(x), sent)
    rows = rearrange(tape, rows, sent)
    rows = rearrange(tape, rows, gathered)
    out = _run_experts(tape, rows, shape, experts, switches)
    for size in (gathered, sent, sent, x.numel):
        out = rearrange(tape, out, size)
    return out


def _gather_tokens(
    tape: Tape, x: Value, shape: RankShape, experts: ExpertShape, switches: Switches
) -> Value:
    """Return the routed experts' output of tokens that are gathered.

    The buffer that they are gathered in stays (token_dispatcher.py,
    ``MoEAllGatherTokenDispatcher``). Rows of the rank's experts are taken out of it, and added up
    at their places among all tokens, which are summed over the ranks.
    """
    ranks = experts.gathering_ranks
    gathered = sizes.scale(x.numel, ranks)
    chosen = sizes.scale(x.numel, experts.top_k * experts.copies)
    num_chosen = max(1, experts.top_k * experts.copies * INDEX_BYTES // shape.sequence_shards)
    num_local = max(1, ranks * experts.local_experts * SELECTION_BYTES // shape.sequence_shards)
    places, selection = (allocate_saved(tape, tokens(width)) for width in (num_chosen, num_local))

    def scatter(_: Storage) -> None:
        grad = total = tape.scratch(gathered, BF16)
        if ranks > 1:
            grad = tape.scratch(x.numel, BF16)
            tape.release(total)
        tape.send(x, grad)

    rows = tape.emit(chosen, BF16, inputs=(x,), saves=(places, selection), backward=scatter)
    tape.free(selection)
    out = _run_experts(tape, rows, shape, experts, switches)
    summed = tape.emit(
        gathered,
        BF16,
        inputs=(out,),
        saves=(places,),
        backward=lambda _: tape.send(out, tape.scratch(out.numel, BF16)),
    )
    tape.free(out, places)
    return rearrange(tape, summed, x.numel) if ranks > 1 else summed


def _run_experts(
    tape: Tape, rows: Value, shape: RankShape, experts: ExpertShape, switches: Switches
) -> Value:
    """Return the output of sorted rows, and drop them."""
    copies, num_rows = experts.top_k * experts.copies, rows.numel
    inner = copies * experts.inner // shape.sequence_shards
    products, width = build_products(shape, switches), 2 if shape.gated else 1
    # Those of one expert at a time, or of all at once.
    num_weights = (
        shape.hidden * experts.inner * (1 if switches.joins_experts else experts.local_experts)
    )
    wide = _multiply_rows(tape, rows, inner * width, products, num_weights * width)
    tape.free(rows)
    probabilities = allocate_saved(tape, tokens(max(1, 4 * copies // shape.sequence_shards)))
    activated = apply_activation(tape, wide, tokens(inner), probabilities)
    tape.free(wide, probabilities)
    if not shape.gated:
        activated = _weigh_rows(tape, activated)
    out = _multiply_rows(tape, activated, num_rows[3], products, num_weights)
    tape.free(activated)
    # One after the other, outputs are joined (experts.py, ``SequentialMLP``).
    joins = switches.joins_experts and experts.local_experts > 1
    return rearrange(tape, out, num_rows) if joins else out


def _weigh_rows(tape: Tape, x: Value) -> Value:
    """Return ``x`` times its probabilities, in fp32 and cast back.

    Only gated activations have a kernel for both (mlp.py).
    """
    wide = tape.scratch(x.numel, DType.FP32)
    y = tape.emit(
        x.numel,
        BF16,
        inputs=(x,),
        saves=(x,),
        backward=lambda _: tape.send(x, tape.scratch(x.numel, BF16)),
    )
    tape.release(wide)
    tape.free(x)
    return y


def _multiply_rows(tape: Tape, x: Value, out: int, products: Products, num_weights: int) -> Value:
    """Return a product over sorted rows, which keeps its input."""

    def backward(_: Storage) -> None:
        grad = tape.scratch(x.numel, BF16)
        products.pass_gradient(tape, num_weights)
        tape.send(x, grad)

    return tape.emit(tokens(out), BF16, inputs=(x,), saves=(x,), backward=backward)


def _apply_shared_experts(
    tape: Tape, x: Value, shape: RankShape, experts: ExpertShape, switches: Switches
) -> Value:
    """Return the output of the shared experts.

    They are an MLP of their own on the same normalised input.
    """
    products = build_products(shape, switches)
    wide = column_linear(tape, x, experts.shared_inner * (2 if shape.gated else 1), products)
    activated = apply_activation(tape, wide, tokens(experts.shared_inner))
    tape.free(wide)
    y = row_linear(tape, activated, shape.hidden, products)
    tape.free(activated)
    return y
