"""The layers of BART's and Whisper's stacks: attention to a stack's own positions, across to the encoder's, feed-forward.

(transformers 5.23, ``models/bart/modeling_bart.py``, ``models/whisper/modeling_whisper.py``.)
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from service.estimator.model.modules.attention.cross_kv import memorised
from service.estimator.model.modules.attention.dispatch import Scoring, attend
from service.estimator.model.modules.attention.returned_weights import weights_named
from service.estimator.model.modules.mlp.feedforward import ACTIVATIONS
from service.estimator.model.recording import Recording
from service.estimator.model.shared_inputs import passing_of
from service.estimator.model.weights.tensors import Linear, Norm, Weight
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops.elementwise import add, chain, dropout, multiply_scalar
from service.estimator.tape.ops.products import copy_of

Half = Callable[[Value], Value]


@dataclass(frozen=True, slots=True, kw_only=True)
class StackAttention:
    """Attention of one half of a layer; ``across`` reads what the encoder gave.

    ``head_major``: the query is scaled by the model, and each part copied to lie head after head (Whisper).
    """

    query: Linear
    key: Linear
    value: Linear
    output: Linear
    num_heads: int
    causal: bool = False
    across: bool = False
    head_major: bool = False
    dropout: float = 0.0

    def linears(self) -> tuple[Linear, ...]:
        """Return the linear layers in order of use."""
        return (self.query, self.key, self.value, self.output)

    @property
    def scoring(self) -> Scoring:
        """How queries meet keys."""
        return Scoring(
            num_heads=self.num_heads,
            num_kv_heads=self.num_heads,
            upcast=False,
            dropout=self.dropout,
            causal=self.causal,
            casts_back=False,
            head_major=self.head_major,
        )

    def record(self, run: Recording, x: Value, scope: str) -> Value:
        """Record the attention; ``x`` stays with the caller."""
        tape = run.tape
        query = run.linear(self.query, x, scope)
        if self.head_major:
            query = self._laid_out(run, chain(tape, query, multiply_scalar))
        key, value = (
            memorised(run, (self.key, self.value), scope, copies=self.head_major) if self.across else self._own(run, x, scope)
        )
        mixed = self._attended(run, query, key, value)
        result = chain(tape, mixed, lambda _, y: run.linear(self.output, y, scope))
        tape.free(query, key, value)
        return result

    def _own(self, run: Recording, x: Value, scope: str) -> tuple[Value, Value]:
        key, value = (self._laid_out(run, run.linear(layer, x, scope)) for layer in (self.key, self.value))
        return run.cached(key, value, self.key.out_features)

    def _laid_out(self, run: Recording, x: Value) -> Value:
        """Return ``x`` head after head; a single query lies so already."""
        return chain(run.tape, x, copy_of) if self.head_major and passing_of(run).own.queries != 1 else x

    def _attended(self, run: Recording, query: Value, key: Value, value: Value) -> Value:
        if not self.across:
            return attend(run, query, key, value, self.scoring)
        passing, own, padded = passing_of(run), run.extent, run.padded
        run.extent, run.padded = passing.crossing, passing.masked
        mixed = attend(run, query, key, value, self.scoring)
        run.extent, run.padded = own, padded
        return mixed


@dataclass(frozen=True, slots=True, kw_only=True)
class StackLayer:
    """A layer; ``norms`` are those of its halves, before each (Whisper) or after its residual (BART)."""

    attention: StackAttention
    across: StackAttention | None
    up: Linear
    down: Linear
    norms: tuple[Norm, ...]
    norm_first: bool
    activation: str
    dropout: float
    activation_dropout: float

    @property
    def reads_memory(self) -> bool:
        """Whether this is a decoder's layer."""
        return self.across is not None

    def linears(self) -> tuple[Linear, ...]:
        """Return the linear layers that adapters can target, in order of use."""
        across = self.across.linears() if self.across is not None else ()
        return (*self.attention.linears(), *across, self.up, self.down)

    def weights(self) -> Iterator[Weight]:
        """Yield the parameter tensors."""
        for layer in self.linears():
            yield from layer.weights()
        for norm in self.norms:
            yield from norm.weights()

    def idle_parameters(self) -> int:
        """Return the parameters that one token does not use: none."""
        return 0

    @property
    def cache_elements_per_token(self) -> int:
        """Elements of key and value that a decoder's cache keeps for one of its own tokens."""
        return 2 * self.attention.key.out_features if self.reads_memory else 0

    @property
    def memory_elements_per_token(self) -> int:
        """Elements of key and value that a decoder's cache keeps for one position of the encoder."""
        return self.cache_elements_per_token

    def record(self, run: Recording, x: Value, scope: str) -> Value:
        """Record the layer; its input is dropped at its end, when the loop over layers rebinds its name."""
        tape, across = run.tape, self.across
        with weights_named(run):
            states = self._half(run, tape.alias(x), self.norms[0], scope, lambda y: self.attention.record(run, y, scope))
            if across is not None:
                states = self._crossed(run, states, across, scope)
            states = self._half(run, states, self.norms[-1], scope, lambda y: self._fed(run, y, scope))
            tape.free(x)
        return states

    def _crossed(self, run: Recording, x: Value, across: StackAttention, scope: str) -> Value:
        """Return the half that reads the encoder; the name of its weights was that of the stack's own."""
        names = run.names if run.names is not None else []
        earlier = len(names)
        states = self._half(run, x, self.norms[1], scope, lambda y: across.record(run, y, scope))
        run.tape.release(*names[:earlier])
        del names[:earlier]
        return states

    def _half(self, run: Recording, x: Value, norm: Norm, scope: str, half: Half) -> Value:
        """Return ``x`` plus what a half makes of it, normalised before or after; ``x`` is dropped."""
        tape = run.tape
        read = run.norm(norm, x, scope) if self.norm_first else tape.alias(x)
        made = chain(tape, read, lambda _, y: half(y))
        made = chain(tape, made, lambda t, y: dropout(t, y, self.dropout))
        summed = chain(tape, made, lambda t, y: add(t, x, y))
        tape.free(x)
        return summed if self.norm_first else chain(tape, summed, lambda _, y: run.norm(norm, y, scope))

    def _fed(self, run: Recording, x: Value, scope: str) -> Value:
        """Return the feed-forward; ``x`` stays with the caller."""
        tape = run.tape
        inner = chain(tape, run.linear(self.up, x, scope), ACTIVATIONS[self.activation])
        inner = chain(tape, inner, lambda t, y: dropout(t, y, self.activation_dropout))
        return chain(tape, inner, lambda _, y: run.linear(self.down, y, scope))
