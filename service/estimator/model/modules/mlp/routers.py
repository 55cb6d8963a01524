"""Routers: how a token's experts are chosen and weighed, line by line as the model families write it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from service.estimator.model.modules.mlp.fused_experts import merged_linear
from service.estimator.model.recording import Recording
from service.estimator.model.weights.tensors import Linear, Weight
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops.elementwise import add_scalar, cast, chain, from_output, multiply_scalar, softmax
from service.estimator.tape.ops.products import integers, linear
from service.estimator.tape.ops.routing import divide_in_place, gather, sum_of_rows, top_k
from service.estimator.values.dtypes import DType

BOOLEAN_BYTES = 1
GROUP_EXPERTS = 2
"""DeepSeek-V3 scores a group by its two best experts (arXiv:2412.19437, section 2.1.2)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Routing:
    """Weights of the chosen experts, their indices, and what the layer's forward has a name for beside them."""

    weights: Value
    indices: Value
    names: tuple[Value, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SoftmaxRouter:
    """Softmax over all experts in fp32, then the best ``top_k`` of them, which may be made to add up to one again."""

    name: str
    hidden_size: int
    num_experts: int
    top_k: int
    renormalised: bool
    keeps_fp32: bool = False
    """Weights stay in fp32 (mixtral); the others cast them to the dtype of the logits."""

    def linears(self) -> tuple[Linear, ...]:
        """Return no layer: the router is a bare parameter."""
        return ()

    def weights(self) -> Iterator[Weight]:
        """Yield the table of experts."""
        yield _table(self.name, self.num_experts, self.hidden_size)

    def record(self, run: Recording, x: Value, scope: str) -> Routing:
        """Record the choice; ``x`` stays with the caller."""
        tape, chosen = run.tape, run.extent.tokens(self.top_k)
        logits = merged_linear(run, _table(self.name, self.num_experts, self.hidden_size), x, scope)
        upcast = cast(tape, logits, DType.FP32)
        probabilities = chain(tape, upcast, softmax)
        top, indices = top_k(tape, probabilities, chosen)
        if self.renormalised:
            top = _shares(run, top)
        weights = tape.alias(top) if self.keeps_fp32 else cast(tape, top, logits.dtype)
        tape.free(top, probabilities)
        return Routing(weights=weights, indices=indices, names=(logits,))


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenSoftmaxRouter:
    """The best ``top_k`` logits in fp32, then a softmax over those alone (granite)."""

    name: str
    hidden_size: int
    num_experts: int
    top_k: int

    def linears(self) -> tuple[Linear, ...]:
        """Return no layer: the router is a bare parameter."""
        return ()

    def weights(self) -> Iterator[Weight]:
        """Yield the table of experts."""
        yield _table(self.name, self.num_experts, self.hidden_size)

    def record(self, run: Recording, x: Value, scope: str) -> Routing:
        """Record the choice; ``x`` stays with the caller."""
        tape = run.tape
        logits = merged_linear(run, _table(self.name, self.num_experts, self.hidden_size), x, scope)
        upcast = chain(tape, logits, lambda t, value: cast(t, value, DType.FP32))
        top, indices = top_k(tape, upcast, run.extent.tokens(self.top_k))
        shares = softmax(tape, top)
        weights = cast(tape, shares, x.dtype)
        tape.free(top, shares)
        return Routing(weights=weights, indices=indices, names=(upcast,))


@dataclass(frozen=True, slots=True, kw_only=True)
class BiasedRouter:
    """The best ``top_k`` logits of a layer with a bias, then a softmax over those in their own dtype (gpt_oss)."""

    name: str
    hidden_size: int
    num_experts: int
    top_k: int

    def linears(self) -> tuple[Linear, ...]:
        """Return no layer: the router is a bare parameter."""
        return ()

    def weights(self) -> Iterator[Weight]:
        """Yield the table of experts and their biases."""
        yield _table(self.name, self.num_experts, self.hidden_size)
        yield Weight(f"{self.name}.bias", "router", (self.num_experts,))

    def record(self, run: Recording, x: Value, scope: str) -> Routing:
        """Record the choice; ``x`` stays with the caller."""
        tape = run.tape
        weight, bias = run.parameters(self.weights(), scope)
        logits = linear(tape, x, weight, run.extent.tokens(self.num_experts), bias=bias)
        top, indices = top_k(tape, logits, run.extent.tokens(self.top_k))
        return Routing(weights=chain(tape, top, from_output), indices=indices, names=(logits,))


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaledSoftmaxRouter:
    """Softmax in fp32 of an fp32 product, and the best ``top_k`` times a constant (DeepSeek-V2, greedy choice)."""

    name: str
    hidden_size: int
    num_experts: int
    top_k: int

    def linears(self) -> tuple[Linear, ...]:
        """Return no layer: the router is a bare parameter."""
        return ()

    def weights(self) -> Iterator[Weight]:
        """Yield the table of experts."""
        yield _table(self.name, self.num_experts, self.hidden_size)

    def record(self, run: Recording, x: Value, scope: str) -> Routing:
        """Record the choice; ``x`` stays with the caller."""
        tape = run.tape
        logits = merged_linear(run, _table(self.name, self.num_experts, self.hidden_size), x, scope, in_fp32=True)
        scores = chain(tape, cast(tape, logits, DType.FP32), softmax)
        top, indices = top_k(tape, scores, run.extent.tokens(self.top_k))
        weights = chain(tape, top, multiply_scalar)
        tape.free(scores)
        return Routing(weights=weights, indices=indices, names=(logits,))


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupedSigmoidRouter:
    """Sigmoid of an fp32 product; the choice, by corrected scores within the best groups, has no gradient (DeepSeek-V3)."""

    name: str
    hidden_size: int
    num_experts: int
    top_k: int
    num_groups: int
    num_chosen_groups: int
    renormalised: bool

    def linears(self) -> tuple[Linear, ...]:
        """Return no layer: the router is a bare parameter."""
        return ()

    def weights(self) -> Iterator[Weight]:
        """Yield the table of experts."""
        yield _table(self.name, self.num_experts, self.hidden_size)

    def record(self, run: Recording, x: Value, scope: str) -> Routing:
        """Record the choice; ``x`` stays with the caller."""
        tape, chosen = run.tape, run.extent.tokens(self.top_k)
        logits = merged_linear(run, _table(self.name, self.num_experts, self.hidden_size), x, scope, in_fp32=True)
        scores = from_output(tape, logits)
        indices, names = self._choice(run)
        top = gather(tape, scores, indices, chosen)
        if self.renormalised:
            top = _shares(run, top, guarded=True)
        weights = chain(tape, top, multiply_scalar)
        tape.free(scores, *names)
        return Routing(weights=weights, indices=indices, names=(logits,))

    def _choice(self, run: Recording) -> tuple[Value, list[Value]]:
        """Return the indices of the chosen experts, and what the router's forward has names for until its end."""
        tape, tokens = run.tape, run.extent.tokens
        per_group = 4 * self.num_groups
        corrected = integers(tape, tokens(self.num_experts), bytes_each=4)
        best = integers(tape, tokens(GROUP_EXPERTS * self.num_groups), bytes_each=12)
        group_scores = integers(tape, tokens(1), bytes_each=per_group)
        group_indices = integers(tape, tokens(self.num_chosen_groups))
        group_mask = integers(tape, tokens(1), bytes_each=per_group)
        mask = integers(tape, tokens(self.num_experts), bytes_each=BOOLEAN_BYTES)
        masked = integers(tape, tokens(self.num_experts), bytes_each=4)
        tape.free(corrected, best)
        indices = integers(tape, tokens(self.top_k))
        return indices, [group_scores, group_indices, group_mask, mask, masked]


class Router(Protocol):
    """What a layer with experts asks of its router."""

    def linears(self) -> tuple[Linear, ...]:
        """Return the linear layers that adapters can target."""
        ...

    def weights(self) -> Iterator[Weight]:
        """Yield the parameter tensors."""
        ...

    def record(self, run: Recording, x: Value, scope: str) -> Routing:
        """Record the choice; ``x`` stays with the caller."""
        ...


def _table(name: str, num_experts: int, hidden_size: int) -> Weight:
    return Weight(f"{name}.weight", "router", (num_experts, hidden_size))


def _shares(run: Recording, top: Value, *, guarded: bool = False) -> Value:
    """Return the chosen weights divided in place by their sum, ``guarded`` against zero; they are dropped."""
    tape = run.tape
    total = sum_of_rows(tape, top, run.extent.tokens(1))
    if guarded:
        total = chain(tape, total, add_scalar)
    shares = divide_in_place(tape, top, total)
    tape.free(top, total)
    return shares
