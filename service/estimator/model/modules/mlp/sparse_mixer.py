"""Phi-MoE's router, which samples two experts one after the other (SparseMixer-v2, arXiv:2409.12136)."""

from collections.abc import Iterator
from dataclasses import dataclass

from service.estimator.model.modules.mlp.fused_experts import merged_linear
from service.estimator.model.modules.mlp.routers import Routing
from service.estimator.model.recording import Recording
from service.estimator.model.weights.tensors import Linear, Weight
from service.estimator.tape.ledger import Storage
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops.elementwise import chain, softmax
from service.estimator.tape.ops.products import integers
from service.estimator.tape.ops.routing import gather
from service.estimator.tape.ops.segments import filled
from service.estimator.tape.ops.views import concatenate
from service.estimator.values.dtypes import DType


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseMixerRouter:
    """Two choices among the experts that come close to the best one; the second without the first."""

    name: str
    hidden_size: int
    num_experts: int

    def linears(self) -> tuple[Linear, ...]:
        """Return no layer: what the router returns is more than a product, to which no adapter can add."""
        return ()

    def weights(self) -> Iterator[Weight]:
        """Yield the table of experts."""
        yield Weight(f"{self.name}.weight", "router", (self.num_experts, self.hidden_size))

    def record(self, run: Recording, x: Value, scope: str) -> Routing:
        """Record both choices; ``x`` stays with the caller."""
        tape, numel = run.tape, run.extent.tokens(self.num_experts)
        (weight,) = self.weights()
        logits = merged_linear(run, weight, x, scope)
        first, chosen, names = self._chosen(run, logits, logits)
        # No gradient comes by here: the weights of both choices answer to the logits themselves.
        rest = tape.emit(numel, logits.dtype, inputs=(logits,), saves=(chosen,), backward=lambda _: None)
        second, other, more = self._chosen(run, rest, logits)
        weights = concatenate(tape, (first, second))
        indices = integers(tape, run.extent.tokens(2))
        tape.free(first, second, chosen, other, rest, *names, *more)
        return Routing(weights=weights, indices=indices, names=(logits,))

    def _chosen(self, run: Recording, scores: Value, logits: Value) -> tuple[Value, Value, tuple[Value, ...]]:
        """Return the weight of one choice among ``scores``, its index, and what keeps a name until the router is through."""
        tape, tokens = run.tape, run.extent.tokens
        width = self.num_experts
        mask, factor = (integers(tape, tokens(width), bytes_each=size) for size in (1, scores.dtype.bytes_per_element))
        masked = filled(tape, scores, mask, scores.numel)
        if tape.records:  # the noise of a Gumbel sample
            tape.free(*(integers(tape, tokens(width), bytes_each=scores.dtype.bytes_per_element) for _ in range(3)))
        chosen = integers(tape, tokens(1))
        shares = chain(tape, masked, softmax)
        share = gather(tape, shares, chosen, tokens(1))
        if not tape.records:
            return share, chosen, (mask, factor, shares)
        kept = (share, chosen, shares)
        weight = tape.emit(
            tokens(1), shares.dtype, inputs=(logits,), saves=kept, backward=lambda _: self._scattered(run, logits, shares.dtype)
        )
        return weight, chosen, (mask, factor, shares, share)

    def _scattered(self, run: Recording, logits: Value, dtype: DType) -> None:
        """Answer with the estimate of the gradient: shares times the negated gradient, with the choice's own put in."""
        tape = run.tape
        scaled, negated = tape.scratch(run.extent.tokens(1), dtype), tape.scratch(run.extent.tokens(1), dtype)
        grad = tape.scratch(logits.numel, dtype)
        tape.release(scaled, negated)
        tape.send(logits, grad if dtype is logits.dtype else self._narrowed(run, grad, logits))

    def _narrowed(self, run: Recording, grad: Storage, logits: Value) -> Storage:
        narrow = run.tape.scratch(logits.numel, logits.dtype)
        run.tape.release(grad)
        return narrow
