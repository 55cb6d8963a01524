"""Scan of Mamba-2 over chunks (``mamba2_chunk_scan``)."""

from dataclasses import dataclass

from service.estimator.model.modules.ssm.chunks import Chunks
from service.estimator.model.recording import Recording
from service.estimator.tape import sizes
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops.elementwise import add, chain, multiply
from service.estimator.tape.ops.norms import subtract_broadcast
from service.estimator.tape.ops.products import copy_contiguous
from service.estimator.tape.ops.scan import multiply_broadcast
from service.estimator.tape.ops.segments import (
    compute_segment_decay,
    contract,
    cumsum,
    exponentiate,
    pad_with_zeros,
)
from service.estimator.tape.ops.views import concatenate, narrow


@dataclass(frozen=True, slots=True, kw_only=True)
class Mamba2Scan:
    """Scan over chunks, with the states that each hands to the next."""

    num_heads: int
    head_dim: int
    state_size: int
    chunks: Chunks

    def record(
        self, ctx: Recording, parts: tuple[Value, Value, Value, Value]
    ) -> tuple[Value, list[Value]]:
        """Return the output of all chunks, and the states for a cache.

        The output comes from the chunks' own positions and from the states they start with.
        """
        tape, chunks = ctx.tape, self.chunks
        numel = chunks.padded(self.num_heads * self.head_dim)
        hidden, decay, entering, reading = parts
        copied = not chunks.is_single_chunk
        square = chunks.per_chunk(self.num_heads * chunks.side**2)
        decays = cumsum(tape, decay)
        mask = compute_segment_decay(tape, decay, chunks.side, square)
        scores = contract(tape, reading, entering, square, copies=(copied, copied))
        weights = multiply(tape, scores, mask)
        near = contract(tape, weights, hidden, numel, copies=(False, chunks.has_several_chunks))
        states, names = self._compute_states(ctx, (hidden, decays, entering))
        growth = exponentiate(tape, decays)
        far = contract(tape, reading, states, numel, copies=(copied, chunks.has_several_chunks))
        grown = multiply_broadcast(tape, far, growth, numel)
        summed = chain(tape, add(tape, near, grown), copy_contiguous)
        tape.free(decays, mask, scores, weights, near, growth, far, grown, *names)
        if ctx.cache is not None:
            return summed, [states]
        tape.free(states)
        return summed, []

    def _compute_states(
        self, ctx: Recording, parts: tuple[Value, Value, Value]
    ) -> tuple[Value, tuple[Value, ...]]:
        """Return the state that each chunk starts with.

        Also returns the tensors that the scan names until its end.
        """
        tape, chunks = ctx.tape, self.chunks
        copied = not chunks.is_single_chunk
        hidden, decays, entering = parts
        per_state = self.num_heads * self.head_dim * self.state_size
        last = narrow(tape, decays, chunks.per_chunk(self.num_heads))
        fading = chain(tape, subtract_broadcast(tape, decays, last), exponentiate)
        tape.free(last)
        faded = multiply_broadcast(tape, entering, fading, entering.numel)
        chunk_states = contract(
            tape,
            faded,
            hidden,
            chunks.per_chunk(per_state),
            copies=(copied, chunks.has_several_chunks),
        )
        first = Value(
            tape.scratch(sizes.per_sequence(per_state), chunk_states.dtype),
            sizes.per_sequence(per_state),
            chunk_states.dtype,
        )
        joined = concatenate(tape, (first, chunk_states))
        tape.free(chunk_states)
        ends = narrow(tape, decays, chunks.per_chunk(self.num_heads))
        ends = chain(
            tape, ends, lambda t, v: pad_with_zeros(t, v, chunks.per_chunk(self.num_heads, more=1))
        )
        side = chunks.count + 1
        between = chain(
            tape,
            ends,
            lambda t, v: compute_segment_decay(
                t, v, side, sizes.per_sequence(self.num_heads * side**2)
            ),
        )
        carried = contract(tape, between, joined, joined.numel, copies=(False, chunks.batched))
        tape.free(joined)
        starts = chain(tape, carried, lambda t, v: narrow(t, v, chunks.per_chunk(per_state)))
        return starts, (fading, faded, between, first)
