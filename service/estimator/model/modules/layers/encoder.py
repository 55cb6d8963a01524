"""Shared modules of encoders with a masked-language-model head.

Post-norm layers, embeddings and the head's transform.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from service.estimator.model.architecture import EmbeddingOutput
from service.estimator.model.modules.attention.projections import Attention
from service.estimator.model.modules.attention.returned_weights import keep_attention_weights
from service.estimator.model.modules.mlp.activations import ACTIVATIONS
from service.estimator.model.recording import Recording
from service.estimator.model.weights.tensors import Linear, Norm, Weight
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops.elementwise import add, chain, dropout
from service.estimator.tape.ops.products import allocate_integers, embedding
from service.estimator.tape.sizes import ZERO
from service.estimator.values.workload import Attention as Kernel


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderBlock:
    """Encoder layer that normalises after each residual.

    (``BertLayer.forward``, DistilBERT's ``TransformerBlock.forward``.)
    """

    attention: Attention
    attention_norm: Norm
    up: Linear
    down: Linear
    activation: str
    dropout: float
    output_norm: Norm
    names_inner: bool = False
    """Whether the code names the activation's output until the layer ends
    (``BertLayer.feed_forward_chunk``).
    """

    def linears(self) -> tuple[Linear, ...]:
        """Return the linear layers that adapters can target, in order of use."""
        return (*self.attention.linears(), self.up, self.down)

    def weights(self) -> Iterator[Weight]:
        """Yield the parameter tensors."""
        for layer in self.linears():
            yield from layer.weights()
        for norm in (self.attention_norm, self.output_norm):
            yield from norm.weights()

    def idle_parameters(self) -> int:
        """Return the parameters that one token does not use: none."""
        return 0

    @property
    def cache_elements_per_token(self) -> int:
        """Cache elements of one token: none, an encoder has no cache."""
        return 0

    def record(self, ctx: Recording, x: Value, scope: str) -> Value:
        """Record the layer, which drops its input.

        The input is dropped at the end, when the loop over layers rebinds its name.
        """
        tape = ctx.tape
        with keep_attention_weights(ctx):
            mixed = self.attention.record(ctx, x, scope)
            middle = self._add_and_normalise(ctx, mixed, x, self.attention_norm, scope)
            hidden = ctx.linear(self.up, middle, scope)
            activated = chain(tape, hidden, ACTIVATIONS[self.activation])
            named = (tape.alias(activated),) if self.names_inner else ()
            fed = chain(tape, activated, lambda _, value: ctx.linear(self.down, value, scope))
            fed = chain(tape, fed, lambda t, value: dropout(t, value, self.dropout))
            y = self._add_and_normalise(ctx, fed, middle, self.output_norm, scope)
            tape.free(middle, x, *named)
        return y

    def _add_and_normalise(
        self, ctx: Recording, x: Value, residual: Value, norm: Norm, scope: str
    ) -> Value:
        """Return ``norm(x + residual)``; ``x`` is dropped last."""
        y = chain(
            ctx.tape, add(ctx.tape, x, residual), lambda _, value: ctx.norm(norm, value, scope)
        )
        ctx.tape.free(x)
        return y


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderEmbeddings:
    """Embeddings of an encoder, with norm and dropout.

    Position and token-type tables stand beside the word table.
    """

    positions: Weight
    types: Weight | None
    norm: Norm
    dropout: float
    positions_per_token: bool = False
    """Whether positions are counted on the ids of each sequence, instead of read from a buffer."""
    counts_labels: bool = True
    """Whether each token comes with a label."""

    def weights(self) -> Iterator[Weight]:
        """Yield the parameter tensors but the position table."""
        if self.types is not None:
            yield self.types
        yield from self.norm.weights()

    def embed(self, ctx: Recording, tokens: Value) -> EmbeddingOutput:
        """Record the embeddings' forward, and the mask of all layers."""
        x = self.embed_tokens(ctx, tokens)
        return EmbeddingOutput(x=x, layer_args=build_padding_mask(ctx, x))

    def embed_tokens(self, ctx: Recording, tokens: Value) -> Value:
        """Record the embeddings' forward.

        The tensors that it names are dropped at its end.
        """
        tape, pass_shape = ctx.tape, ctx.shape
        if self.counts_labels:
            count_labels(ctx)
        shape = pass_shape.tokens if self.positions_per_token else pass_shape.positions
        hidden, total = self.positions.shape[1], tape.alias(tokens)
        ids = allocate_integers(tape, shape(1) if self.positions_per_token else ZERO)
        placed: list[Value] = []
        if self.types is not None:
            type_ids = allocate_integers(tape, shape(1))
            placed.append(
                embedding(tape, ctx.parameter(self.types), type_ids, pass_shape.tokens(hidden))
            )
            tape.free(type_ids)
            total = chain(tape, total, lambda t, value: add(t, value, placed[0]))
        placed.append(embedding(tape, ctx.parameter(self.positions), ids, shape(hidden)))
        total = chain(tape, total, lambda t, value: add(t, value, placed[-1]))
        normed = chain(tape, total, lambda _, value: ctx.norm(self.norm, value, ""))
        x = chain(tape, normed, lambda t, value: dropout(t, value, self.dropout))
        tape.free(tokens, ids, *placed)
        return x


def count_labels(ctx: Recording) -> None:
    """Count the labels, a separate input of the model.

    They live as long as the step.
    """
    if ctx.tape.builds_graph:
        allocate_integers(ctx.tape, ctx.shape.tokens(1))


def build_padding_mask(ctx: Recording, x: Value) -> tuple[Value, ...]:
    """Return the padding mask that every layer gets.

    Without padding an encoder has none.
    """
    if not ctx.padded:
        return ()
    width = x.dtype.bytes_per_element if ctx.settings.attention is Kernel.EAGER else 1
    return (allocate_integers(ctx.tape, ctx.shape.mask(width), bytes_each=1),)


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionHeadTransform:
    """Transform between the last hidden state and the output table.

    It consists of a linear layer, an activation and a norm.
    """

    dense: Linear
    activation: str
    norm: Norm

    def weights(self) -> Iterator[Weight]:
        """Yield the parameter tensors."""
        yield from self.dense.weights()
        yield from self.norm.weights()

    def record(self, ctx: Recording, x: Value) -> Value:
        """Record the transform; ``x`` stays with the caller."""
        dense = ctx.linear(self.dense, x, "")
        activated = chain(ctx.tape, dense, ACTIVATIONS[self.activation])
        return chain(ctx.tape, activated, lambda _, value: ctx.norm(self.norm, value, ""))
