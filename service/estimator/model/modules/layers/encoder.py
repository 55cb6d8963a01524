"""What encoders with a masked-language-model head have in common: layers that norm last, tables, the head's transform."""

from collections.abc import Iterator
from dataclasses import dataclass

from service.estimator.model.architecture import Embedded
from service.estimator.model.modules.attention.projections import Attention
from service.estimator.model.modules.attention.returned_weights import weights_named
from service.estimator.model.modules.mlp.feedforward import ACTIVATIONS
from service.estimator.model.recording import Recording
from service.estimator.model.weights.tensors import Linear, Norm, Weight
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops.elementwise import add, chain, dropout
from service.estimator.tape.ops.products import embedding, integers
from service.estimator.tape.sizes import ZERO
from service.estimator.values.workload import Attention as Kernel


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderBlock:
    """A layer that norms after each residual (``BertLayer.forward``, DistilBERT's ``TransformerBlock.forward``)."""

    attention: Attention
    attention_norm: Norm
    up: Linear
    down: Linear
    activation: str
    dropout: float
    output_norm: Norm
    names_inner: bool = False
    """Whether the layer's code has a name for what the activation gave until its end (``BertLayer.feed_forward_chunk``)."""

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
        """Elements of key and value that a cache keeps for one token: an encoder has no cache."""
        return 0

    def record(self, run: Recording, x: Value, scope: str) -> Value:
        """Record the layer; its input is dropped at its end, when the loop over layers rebinds its name."""
        tape = run.tape
        with weights_named(run):
            mixed = self.attention.record(run, x, scope)
            middle = self._normed(run, mixed, x, self.attention_norm, scope)
            hidden = run.linear(self.up, middle, scope)
            activated = chain(tape, hidden, ACTIVATIONS[self.activation])
            named = (tape.alias(activated),) if self.names_inner else ()
            fed = chain(tape, activated, lambda _, value: run.linear(self.down, value, scope))
            fed = chain(tape, fed, lambda t, value: dropout(t, value, self.dropout))
            y = self._normed(run, fed, middle, self.output_norm, scope)
            tape.free(middle, x, *named)
        return y

    def _normed(self, run: Recording, x: Value, residual: Value, norm: Norm, scope: str) -> Value:
        """Return ``norm(x + residual)``; ``x`` is dropped last."""
        y = chain(run.tape, add(run.tape, x, residual), lambda _, value: run.norm(norm, value, scope))
        run.tape.free(x)
        return y


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """The embeddings of an encoder: position and token-type tables beside the word table, a norm, dropout."""

    positions: Weight
    types: Weight | None
    norm: Norm
    dropout: float
    positions_per_token: bool = False
    """Whether positions are counted on the ids of each sequence, instead of read from a buffer."""

    def weights(self) -> Iterator[Weight]:
        """Yield the parameter tensors but the position table."""
        if self.types is not None:
            yield self.types
        yield from self.norm.weights()

    def embed(self, run: Recording, tokens: Value) -> Embedded:
        """Record the embeddings' forward; what it names is dropped at its end."""
        tape, extent = run.tape, run.extent
        count_labels(run)
        shape = extent.tokens if self.positions_per_token else extent.positions
        hidden, total = self.positions.shape[1], tape.alias(tokens)
        ids = integers(tape, shape(1) if self.positions_per_token else ZERO)
        placed: list[Value] = []
        if self.types is not None:
            type_ids = integers(tape, shape(1))
            placed.append(embedding(tape, run.parameter(self.types), type_ids, extent.tokens(hidden)))
            tape.free(type_ids)
            total = chain(tape, total, lambda t, value: add(t, value, placed[0]))
        placed.append(embedding(tape, run.parameter(self.positions), ids, shape(hidden)))
        total = chain(tape, total, lambda t, value: add(t, value, placed[-1]))
        normed = chain(tape, total, lambda _, value: run.norm(self.norm, value, ""))
        x = chain(tape, normed, lambda t, value: dropout(t, value, self.dropout))
        tape.free(tokens, ids, *placed)
        return Embedded(x=x, passed=mask_of(run, x))


def count_labels(run: Recording) -> None:
    """Count the labels, which are an input of their own and live as long as the step."""
    if run.tape.records:
        integers(run.tape, run.extent.tokens(1))


def mask_of(run: Recording, x: Value) -> tuple[Value, ...]:
    """Return the mask of padding that every layer gets; without padding an encoder has none."""
    if not run.padded:
        return ()
    width = x.dtype.bytes_per_element if run.attention is Kernel.EAGER else 1
    return (integers(run.tape, run.extent.mask(width), bytes_each=1),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Transform:
    """What stands between an encoder's last hidden state and its output table: linear, activation, norm."""

    dense: Linear
    activation: str
    norm: Norm

    def weights(self) -> Iterator[Weight]:
        """Yield the parameter tensors."""
        yield from self.dense.weights()
        yield from self.norm.weights()

    def record(self, run: Recording, x: Value) -> Value:
        """Record the transform; ``x`` stays with the caller."""
        dense = run.linear(self.dense, x, "")
        activated = chain(run.tape, dense, ACTIVATIONS[self.activation])
        return chain(run.tape, activated, lambda _, value: run.norm(self.norm, value, ""))
