"""Routers that choose and weigh a token's experts.

Operations follow the model families' code line by line.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from service.estimator.model.modules.mlp.fused_experts import apply_fused_linear
from service.estimator.model.recording import Recording
from service.estimator.model.weights.tensors import Linear, Weight
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops.elementwise import (
    activate_saving_output,
    add_scalar,
    cast,
    chain,
    softmax,
)
from service.estimator.tape.ops.products import linear
from service.estimator.tape.ops.routing import divide_in_place, sum_rows, top_k
from service.estimator.values.dtypes import DType


@dataclass(frozen=True, slots=True, kw_only=True)
class Routing:
    """Weights and indices of the chosen experts.

    ``names`` are the other tensors that the layer's forward has names for.
    """

    weights: Value
    indices: Value
    names: tuple[Value, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRouter:
    """Router by a product with a table of experts.

    The table has a row for each, and is a bare parameter and no layer.
    """

    name: str
    hidden_size: int
    num_experts: int
    top_k: int

    @property
    def table(self) -> Weight:
        """Table of experts."""
        return Weight(f"{self.name}.weight", "router", (self.num_experts, self.hidden_size))

    def linears(self) -> tuple[Linear, ...]:
        """Return no layer."""
        return ()

    def weights(self) -> Iterator[Weight]:
        """Yield the table of experts."""
        yield self.table

    def compute_logits(
        self, ctx: Recording, x: Value, scope: str, *, in_fp32: bool = False
    ) -> Value:
        """Return the product; ``x`` stays with the caller."""
        return apply_fused_linear(ctx, self.table, x, scope, in_fp32=in_fp32)


@dataclass(frozen=True, slots=True, kw_only=True)
class SoftmaxRouter(TableRouter):
    """Router with an fp32 softmax over all experts.

    The best ``top_k`` are chosen, and may be made to add up to one again.
    """

    renormalised: bool
    keeps_fp32: bool = False
    """Weights stay in fp32 (mixtral); the others cast them to the dtype of the logits."""

    def record(self, ctx: Recording, x: Value, scope: str) -> Routing:
        """Record the choice; ``x`` stays with the caller."""
        tape, chosen = ctx.tape, ctx.shape.tokens(self.top_k)
        logits = self.compute_logits(ctx, x, scope)
        upcast = cast(tape, logits, DType.FP32)
        probabilities = chain(tape, upcast, softmax)
        top, indices = top_k(tape, probabilities, chosen)
        if self.renormalised:
            top = renormalise(ctx, top)
        weights = tape.alias(top) if self.keeps_fp32 else cast(tape, top, logits.dtype)
        tape.free(top, probabilities)
        return Routing(weights=weights, indices=indices, names=(logits,))


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenSoftmaxRouter(TableRouter):
    """Router with a softmax over the chosen experts only (granite).

    The best ``top_k`` logits are chosen in fp32.
    """

    def record(self, ctx: Recording, x: Value, scope: str) -> Routing:
        """Record the choice; ``x`` stays with the caller."""
        tape = ctx.tape
        logits = self.compute_logits(ctx, x, scope)
        upcast = chain(tape, logits, lambda t, value: cast(t, value, DType.FP32))
        top, indices = top_k(tape, upcast, ctx.shape.tokens(self.top_k))
        shares = softmax(tape, top)
        weights = cast(tape, shares, x.dtype)
        tape.free(top, shares)
        return Routing(weights=weights, indices=indices, names=(upcast,))


@dataclass(frozen=True, slots=True, kw_only=True)
class BiasedRouter(TableRouter):
    """Linear router with a bias and a softmax over the chosen (gpt_oss).

    The best ``top_k`` logits are chosen; the softmax is in their own dtype.
    """

    def weights(self) -> Iterator[Weight]:
        """Yield the table of experts and their biases."""
        yield self.table
        yield Weight(f"{self.name}.bias", "router", (self.num_experts,))

    def record(self, ctx: Recording, x: Value, scope: str) -> Routing:
        """Record the choice; ``x`` stays with the caller."""
        tape = ctx.tape
        weight, bias = ctx.parameters(self.weights(), scope)
        logits = linear(tape, x, weight, ctx.shape.tokens(self.num_experts), bias=bias)
        top, indices = top_k(tape, logits, ctx.shape.tokens(self.top_k))
        return Routing(
            weights=chain(tape, top, activate_saving_output), indices=indices, names=(logits,)
        )


class Router(Protocol):
    """Interface of the routers of layers with experts."""

    def linears(self) -> tuple[Linear, ...]:
        """Return the linear layers that adapters can target."""
        ...

    def weights(self) -> Iterator[Weight]:
        """Yield the parameter tensors."""
        ...

    def record(self, ctx: Recording, x: Value, scope: str) -> Routing:
        """Record the choice; ``x`` stays with the caller."""
        ...


def renormalise(ctx: Recording, top: Value, *, guarded: bool = False) -> Value:
    """Return the chosen weights divided in place by their sum.

    ``guarded`` adds a guard against zero. ``top`` is dropped.
    """
    tape = ctx.tape
    total = sum_rows(tape, top, ctx.shape.tokens(1))
    if guarded:
        total = chain(tape, total, add_scalar)
    shares = divide_in_place(tape, top, total)
    tape.free(top, total)
    return shares
