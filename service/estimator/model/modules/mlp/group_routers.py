"""Routers of DeepSeek, which may choose within groups of experts.

They mirror transformers 5.23 (``models/deepseek_v2``, ``models/deepseek_v3``) line by line.
"""

from dataclasses import dataclass

from service.estimator.model.modules.mlp.routers import Routing, TableRouter, renormalise
from service.estimator.model.recording import Recording
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops.elementwise import (
    activate_saving_output,
    cast,
    chain,
    multiply_scalar,
    softmax,
)
from service.estimator.tape.ops.products import allocate_integers
from service.estimator.tape.ops.routing import gather, top_k
from service.estimator.tape.ops.segments import fill_masked
from service.estimator.values.dtypes import DType

BOOLEAN_BYTES = 1
GROUP_EXPERTS = 2
"""DeepSeek-V3 scores a group by its two best experts (arXiv:2412.19437, section 2.1.2)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaledSoftmaxRouter(TableRouter):
    """Router with a scaled fp32 softmax (DeepSeek-V2).

    The softmax is of an fp32 product; the best ``top_k`` are multiplied by a constant. With
    ``num_groups`` (``group_limited_greedy``) they are chosen within the groups whose best experts
    are best.
    """

    num_groups: int = 0
    num_chosen_groups: int = 0

    def record(self, ctx: Recording, x: Value, scope: str) -> Routing:
        """Record the choice; ``x`` stays with the caller."""
        tape = ctx.tape
        logits = self.compute_logits(ctx, x, scope, in_fp32=True)
        scores = chain(tape, cast(tape, logits, DType.FP32), softmax)
        names: list[Value] = []
        if self.num_groups:
            mask, names = self._choose_groups(ctx)
            scores = chain(tape, scores, lambda t, value: fill_masked(t, value, mask, value.numel))
            tape.free(mask)
        top, indices = top_k(tape, scores, ctx.shape.tokens(self.top_k))
        weights = chain(tape, top, multiply_scalar)
        tape.free(scores, *names)
        return Routing(weights=weights, indices=indices, names=(logits,))

    def _choose_groups(self, ctx: Recording) -> tuple[Value, list[Value]]:
        """Return the mask of experts outside of the chosen groups.

        Also returns the tensors that the router's forward names until its end; each group's score
        has its index beside it for as long as autograd may ask for it.
        """
        tape, tokens = ctx.tape, ctx.shape.tokens
        best = allocate_integers(tape, tokens(self.num_groups), bytes_each=4)
        places = allocate_integers(tape, tokens(self.num_groups))
        if not tape.builds_graph:
            tape.free(places)
        ranked = allocate_integers(tape, tokens(self.num_chosen_groups), bytes_each=4)
        chosen = allocate_integers(tape, tokens(self.num_chosen_groups))
        tape.free(ranked)
        group_mask = allocate_integers(tape, tokens(self.num_groups), bytes_each=4)
        mask = allocate_integers(tape, tokens(self.num_experts), bytes_each=4)
        inside = allocate_integers(tape, tokens(self.num_experts), bytes_each=BOOLEAN_BYTES)
        outside = allocate_integers(tape, tokens(self.num_experts), bytes_each=BOOLEAN_BYTES)
        tape.free(inside)
        return outside, [best, *([places] * tape.builds_graph), chosen, group_mask, mask]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupedSigmoidRouter(TableRouter):
    """Router that chooses within the best expert groups (DeepSeek-V3).

    Weights are the sigmoid of an fp32 product; the choice, by corrected scores within the best
    groups, has no gradient.
    """

    num_groups: int
    num_chosen_groups: int
    renormalised: bool

    def record(self, ctx: Recording, x: Value, scope: str) -> Routing:
        """Record the choice; ``x`` stays with the caller."""
        tape, chosen = ctx.tape, ctx.shape.tokens(self.top_k)
        logits = self.compute_logits(ctx, x, scope, in_fp32=True)
        scores = activate_saving_output(tape, logits)
        indices, names = self._choose_experts(ctx)
        top = gather(tape, scores, indices, chosen)
        if self.renormalised:
            top = renormalise(ctx, top, guarded=True)
        weights = chain(tape, top, multiply_scalar)
        tape.free(scores, *names)
        return Routing(weights=weights, indices=indices, names=(logits,))

    def _choose_experts(self, ctx: Recording) -> tuple[Value, list[Value]]:
        """Return the indices of the chosen experts.

        Also returns the tensors that the router's forward names until its end.
        """
        tape, tokens = ctx.tape, ctx.shape.tokens
        per_group = 4 * self.num_groups
        corrected = allocate_integers(tape, tokens(self.num_experts), bytes_each=4)
        best = allocate_integers(tape, tokens(GROUP_EXPERTS * self.num_groups), bytes_each=12)
        group_scores = allocate_integers(tape, tokens(1), bytes_each=per_group)
        group_indices = allocate_integers(tape, tokens(self.num_chosen_groups))
        group_mask = allocate_integers(tape, tokens(1), bytes_each=per_group)
        mask = allocate_integers(tape, tokens(self.num_experts), bytes_each=BOOLEAN_BYTES)
        masked = allocate_integers(tape, tokens(self.num_experts), bytes_each=4)
        tape.free(corrected, best)
        indices = allocate_integers(tape, tokens(self.top_k))
        return indices, [group_scores, group_indices, group_mask, mask, masked]
