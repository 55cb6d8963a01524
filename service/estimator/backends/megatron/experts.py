"""Experts of one rank: router, dispatch by all-to-all, grouped products (megatron/core/transformer/moe)."""

from service.estimator.backends.megatron.operations import (
    BF16,
    activation,
    column_linear,
    copied,
    kept_bytes,
    normed,
    row_linear,
    tokens,
)
from service.estimator.backends.megatron.shape import ExpertShape, Shape
from service.estimator.tape import sizes
from service.estimator.tape.graph import Tape
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops.elementwise import add
from service.estimator.values.dtypes import DType

ROUTER_BYTES = 4 + 4 + 4 + 1
"""Per token and expert: fp32 scores, their copy for the balancing loss, fp32 probabilities and a boolean map of the choice."""


def sparse_mlp(tape: Tape, x: Value, shape: Shape) -> Value:
    """Return the experts' share of the residual; tokens are taken to be spread evenly over the experts."""
    experts = shape.experts
    assert experts is not None  # noqa: S101 - a sparse layer has experts
    normal = normed(tape, x, shape.statistics)
    routing = _routing(tape, normal, experts, shape.spread)
    shared = _shared(tape, normal, shape, experts) if experts.shared_inner else None
    y = _routed(tape, normal, shape, experts)
    if shared is not None:
        summed = add(tape, y, shared)
        tape.free(y, shared)
        y = summed
    tape.free(normal, routing)
    return y


def _routing(tape: Tape, x: Value, experts: ExpertShape, spread: int) -> Value:
    size = tokens(max(1, ROUTER_BYTES * experts.num_experts // spread))
    return tape.emit(size, DType.FP8, inputs=(x,), saves=(x,), saves_output=True, backward=lambda _: None)


def _routed(tape: Tape, x: Value, shape: Shape, experts: ExpertShape) -> Value:
    """Return what the chosen experts made of each token: permuted, sent, sorted by expert, and all the way back."""
    copies = experts.top_k * experts.copies
    sent = sizes.scale(x.numel, experts.top_k)
    taken = sizes.scale(x.numel, copies)
    rows = copied(tape, tape.alias(x), sent)
    rows = copied(tape, rows, sent)
    rows = copied(tape, rows, taken)
    inner = copies * experts.inner // shape.spread
    wide = _grouped(tape, rows, inner * (2 if shape.gated else 1))
    tape.free(rows)
    probabilities = kept_bytes(tape, tokens(max(1, 4 * copies // shape.spread)))
    activated = activation(tape, wide, tokens(inner), probabilities)
    tape.free(wide, probabilities)
    if not shape.gated:
        activated = _weighed(tape, activated)
    out = _grouped(tape, activated, taken[3])
    tape.free(activated)
    for size in (taken, sent, sent, x.numel):
        out = copied(tape, out, size)
    return out


def _weighed(tape: Tape, x: Value) -> Value:
    """Return ``x`` times its probabilities, in fp32 and cast back; only gated activations have a kernel for both (mlp.py)."""
    wide = tape.scratch(x.numel, DType.FP32)
    y = tape.emit(x.numel, BF16, inputs=(x,), saves=(x,), backward=lambda _: tape.send(x, tape.scratch(x.numel, BF16)))
    tape.release(wide)
    tape.free(x)
    return y


def _grouped(tape: Tape, x: Value, out: int) -> Value:
    """Return a grouped product over sorted rows: keeps its input."""
    return tape.emit(tokens(out), BF16, inputs=(x,), saves=(x,), backward=lambda _: tape.send(x, tape.scratch(x.numel, BF16)))


def _shared(tape: Tape, x: Value, shape: Shape, experts: ExpertShape) -> Value:
    """Return the shared experts, an MLP of their own on the same normalised input."""
    wide = column_linear(tape, x, experts.shared_inner * (2 if shape.gated else 1), spread=shape.spread)
    activated = activation(tape, wide, tokens(experts.shared_inner))
    tape.free(wide)
    y = row_linear(tape, activated, shape.hidden, spread=shape.spread)
    tape.free(activated)
    return y
