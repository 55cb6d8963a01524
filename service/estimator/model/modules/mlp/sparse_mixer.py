"""Router of Phi-MoE (SparseMixer-v2, arXiv:2409.12136).

It samples two experts one after the other.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from service.estimator.model.modules.mlp.fused_experts import apply_fused_linear
from service.estimator.model.modules.mlp.routers import Routing
from service.estimator.model.recording import Recording
from service.estimator.model.weights.tensors import Linear, Weight
from service.estimator.tape.ledger import Storage
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops.elementwise import chain, softmax
from service.estimator.tape.ops.products import allocate_integers
from service.estimator.tape.ops.routing import gather
from service.estimator.tape.ops.segments import fill_masked
from service.estimator.tape.ops.views import concatenate
from service.estimator.values.dtypes import DType


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseMixerRouter:
    """Router that chooses twice among the experts near the best one.

    The second choice is made without the first.
    """

    name: str
    hidden_size: int
    num_experts: int

    def linears(self) -> tuple[Linear, ...]:
        """Return no layer, since no adapter can target the router.

        The router returns more than a product, to which no adapter can add.
        """
        return ()

    def weights(self) -> Iterator[Weight]:
        """Yield the table of experts."""
        yield Weight(f"{self.name}.weight", "router", (self.num_experts, self.hidden_size))

    def record(self, ctx: Recording, x: Value, scope: str) -> Routing:
        """Record both choices; ``x`` stays with the caller."""
        tape, numel = ctx.tape, ctx.shape.tokens(self.num_experts)
        (weight,) = self.weights()
        logits = apply_fused_linear(ctx, weight, x, scope)
        first, first_choice, names = self._choose(ctx, logits, logits)
        # No gradient comes by here: the weights of both choices answer to the logits themselves.
        masked_scores = tape.emit(
            numel, logits.dtype, inputs=(logits,), saves=(first_choice,), backward=lambda _: None
        )
        second, second_choice, more = self._choose(ctx, masked_scores, logits)
        weights = concatenate(tape, (first, second))
        indices = allocate_integers(tape, ctx.shape.tokens(2))
        tape.free(first, second, first_choice, second_choice, masked_scores, *names, *more)
        return Routing(weights=weights, indices=indices, names=(logits,))

    def _choose(
        self, ctx: Recording, scores: Value, logits: Value
    ) -> tuple[Value, Value, tuple[Value, ...]]:
        """Return the weight and index of one choice among ``scores``.

        The last value has the tensors that keep a name until the router is through.
        """
        tape, tokens = ctx.tape, ctx.shape.tokens
        width = self.num_experts
        mask, factor = (
            allocate_integers(tape, tokens(width), bytes_each=size)
            for size in (1, scores.dtype.bytes_per_element)
        )
        masked = fill_masked(tape, scores, mask, scores.numel)
        if tape.builds_graph:  # the noise of a Gumbel sample
            tape.free(
                *(
                    allocate_integers(
                        tape, tokens(width), bytes_each=scores.dtype.bytes_per_element
                    )
                    for _ in range(3)
                ),
            )
        chosen = allocate_integers(tape, tokens(1))
        shares = chain(tape, masked, softmax)
        share = gather(tape, shares, chosen, tokens(1))
        if not tape.builds_graph:
            return share, chosen, (mask, factor, shares)
        saved = (share, chosen, shares)
        weight = tape.emit(
            tokens(1),
            shares.dtype,
            inputs=(logits,),
            saves=saved,
            backward=lambda _: self._send_gradient(ctx, logits, shares.dtype),
        )
        return weight, chosen, (mask, factor, shares, share)

    def _send_gradient(self, ctx: Recording, logits: Value, dtype: DType) -> None:
        """Send the estimated gradient to the logits.

        It is the shares times the negated gradient, with the choice's own put in.
        """
        tape = ctx.tape
        scaled, negated = (
            tape.scratch(ctx.shape.tokens(1), dtype),
            tape.scratch(ctx.shape.tokens(1), dtype),
        )
        grad = tape.scratch(logits.numel, dtype)
        tape.release(scaled, negated)
        tape.send(
            logits, grad if dtype is logits.dtype else self._narrow_gradient(ctx, grad, logits)
        )

    def _narrow_gradient(self, ctx: Recording, grad: Storage, logits: Value) -> Storage:
        narrow = ctx.tape.scratch(logits.numel, logits.dtype)
        ctx.tape.release(grad)
        return narrow
