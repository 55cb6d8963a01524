"""Experts of one rank (megatron/core/transformer/moe).

A router, dispatch by all-to-all, and grouped products.
"""

from service.estimator.backends.megatron.operations import (
    BF16,
    allocate_saved,
    apply_activation,
    apply_norm,
    column_linear,
    rearrange,
    row_linear,
    tokens,
)
from service.estimator.backends.megatron.shape import ExpertShape, RankShape
from service.estimator.tape import sizes
from service.estimator.tape.graph import Tape
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops.elementwise import add
from service.estimator.values.dtypes import DType

ROUTER_BYTES = 4 + 4 + 4 + 1
"""Bytes per token and expert: fp32 scores, their copy for the balancing loss, fp32 probabilities
and a boolean map of the choice.
"""


def record_sparse_mlp(tape: Tape, x: Value, shape: RankShape) -> Value:
    """Record the experts and return their share of the residual.

    Tokens are taken to be spread evenly over the experts.
    """
    experts = shape.experts
    assert experts is not None  # noqa: S101 - a sparse layer has experts
    normalised = apply_norm(tape, x, shape.statistics)
    routing = _route(tape, normalised, experts, shape.sequence_shards)
    shared = (
        _apply_shared_experts(tape, normalised, shape, experts) if experts.shared_inner else None
    )
    y = _apply_routed_experts(tape, normalised, shape, experts)
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


def _apply_routed_experts(tape: Tape, x: Value, shape: RankShape, experts: ExpertShape) -> Value:
    """Return the routed experts' output of each token.

    Rows are permuted, sent, sorted by expert, and taken all the way back.
    """
    copies = experts.top_k * experts.copies
    sent = sizes.scale(x.numel, experts.top_k)
    gathered = sizes.scale(x.numel, copies)
    rows = rearrange(tape, tape.alias(x), sent)
    rows = rearrange(tape, rows, sent)
    rows = rearrange(tape, rows, gathered)
    inner = copies * experts.inner // shape.sequence_shards
    wide = _multiply_grouped(tape, rows, inner * (2 if shape.gated else 1))
    tape.free(rows)
    probabilities = allocate_saved(tape, tokens(max(1, 4 * copies // shape.sequence_shards)))
    activated = apply_activation(tape, wide, tokens(inner), probabilities)
    tape.free(wide, probabilities)
    if not shape.gated:
        activated = _weigh_rows(tape, activated)
    out = _multiply_grouped(tape, activated, gathered[3])
    tape.free(activated)
    for size in (gathered, sent, sent, x.numel):
        out = rearrange(tape, out, size)
    return out


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


def _multiply_grouped(tape: Tape, x: Value, out: int) -> Value:
    """Return a grouped product over sorted rows, which keeps its input."""
    return tape.emit(
        tokens(out),
        BF16,
        inputs=(x,),
        saves=(x,),
        backward=lambda _: tape.send(x, tape.scratch(x.numel, BF16)),
    )


def _apply_shared_experts(tape: Tape, x: Value, shape: RankShape, experts: ExpertShape) -> Value:
    """Return the output of the shared experts.

    They are an MLP of their own on the same normalised input.
    """
    wide = column_linear(
        tape,
        x,
        experts.shared_inner * (2 if shape.gated else 1),
        sequence_shards=shape.sequence_shards,
    )
    activated = apply_activation(tape, wide, tokens(experts.shared_inner))
    tape.free(wide)
    y = row_linear(tape, activated, shape.hidden, sequence_shards=shape.sequence_shards)
    tape.free(activated)
    return y
