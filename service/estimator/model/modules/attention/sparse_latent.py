"""Latent attention to the keys that an indexer chooses (DeepSeek-V3.2, GLM-5).

SDPA and the model's own code read all keys under a mask of those that are left out; engines read
the chosen ones alone.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from service.estimator.model.modules.attention.dispatch import attend_masked
from service.estimator.model.modules.attention.indexer import Indexer, count_chosen
from service.estimator.model.modules.attention.latent import LatentAttention
from service.estimator.model.recording import Recording
from service.estimator.model.weights.tensors import Linear, Weight
from service.estimator.tape.graph import Mode
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops.products import allocate_integers
from service.estimator.values.workload import Attention

_CHOICES = "choices"
"""What checkpoints keep of layers that hand their choice on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseLatentAttention(LatentAttention):
    """Latent attention of one block to chosen keys.

    Without an ``indexer`` it reads what a layer before chose.

    ``hands_on`` says whether the next layer gets its choice as an argument.
    """

    indexer: Indexer | None
    num_chosen: int
    hands_on: bool

    def linears(self) -> tuple[Linear, ...]:
        """Return the linear layers in order of use."""
        layers = LatentAttention.linears(self)
        return layers if self.indexer is None else (*layers, *self.indexer.linears())

    def weights(self) -> Iterator[Weight]:
        """Yield the parameter tensors, as the model makes them."""
        yield from LatentAttention.weights(self)
        if self.indexer is not None:
            yield from self.indexer.weights()

    @property
    def index_elements_per_token(self) -> int:
        """Cache elements of the key that the indexer keeps for one token."""
        return 0 if self.indexer is None else self.indexer.index_dim

    @property
    def cache_elements_per_token(self) -> int:
        """Cache elements of one token: latent, rotated key, and the indexer's key."""
        return self.latent_size + self.rope_dim + self.index_elements_per_token

    @property
    def names_latent(self) -> bool:
        """Whether its code has a name for the query's latent."""
        return True

    def choose_keys(
        self, ctx: Recording, x: Value, query_latent: tuple[Value, ...], scope: str
    ) -> tuple[Value, ...]:
        """Record the indexer and its masks; returns their names."""
        tape, chosen = ctx.tape, tuple[Value, ...]()
        if self.indexer is not None:
            self._drop_kept(ctx)
            chosen = (self.indexer.choose(ctx, x, query_latent[0], scope),)
            self._keep(ctx, chosen[0])
        pairs = ctx.shape.scores(1)
        ones = allocate_integers(tape, pairs, bytes_each=1)
        positions = allocate_integers(tape, count_chosen(ctx, self.num_chosen))
        left_out = allocate_integers(tape, pairs, bytes_each=1)
        tape.free(ones, positions)
        if ctx.settings.attention is Attention.EAGER:
            width = ctx.table_dtype.bytes_per_element
            return (*chosen, left_out, allocate_integers(tape, pairs, bytes_each=width))
        reversed_mask = allocate_integers(tape, pairs, bytes_each=1)
        mask = allocate_integers(tape, pairs, bytes_each=1)
        tape.free(reversed_mask)
        return (*chosen, left_out, mask)

    def attend(self, ctx: Recording, queries: Value, keys: Value, values: Value) -> Value:
        """Record attention under the mask of what is left out."""
        return attend_masked(ctx, queries, keys, values, self.build_attention_config(ctx))

    def _keep(self, ctx: Recording, chosen: Value) -> None:
        """Keep a choice as the next checkpoint has it."""
        if self.hands_on and ctx.tape.mode is Mode.DISCARDING and chosen.storage is not None:
            ctx.saved_outputs.setdefault(_CHOICES, []).append([ctx.tape.hold(chosen.storage)])

    def _drop_kept(self, ctx: Recording) -> None:
        """Drop what was kept, as backward has been through all later layers."""
        choices = ctx.saved_outputs.get(_CHOICES)
        if ctx.tape.mode is Mode.RECOMPUTING and choices:
            ctx.tape.release(*choices.pop())
