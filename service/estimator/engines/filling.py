"""What engines with one pool per rank have in common: a rank's fixed bytes, the pool of each stage, the one that decides."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from service.estimator.engines.blocks import Pool
from service.estimator.engines.pooled import Filled, Part, exact
from service.estimator.engines.ranks import Rank
from service.estimator.layout import Layout
from service.estimator.result import Stage
from service.estimator.speculative import guessed_tokens
from service.estimator.workload import ServeWorkload

_TOWER = ("the engine profiles the model's vision tower as well, with a cache of its outputs: neither is counted",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A rank and the pool that it could have; ``parts`` are all but the pool, ``fixed_bytes`` those inside of the budget."""

    rank: Rank
    fixed_bytes: int
    parts: tuple[Part, ...]
    peak_bytes: int
    pool: Pool


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """Where the pool is told about: its source, the engine's budget of a GPU, and the longest sequence that it accepts."""

    source: str
    budget_bytes: int
    usable_bytes: int
    max_model_len: int


def filled(holders: Sequence[Holder], workload: ServeWorkload, layout: Layout, terms: Terms) -> Filled:
    """Return the rank whose pool has the fewest blocks: every rank then has as many."""
    decisive = min(holders, key=lambda holder: holder.pool.num_blocks)
    pool, model = decisive.pool, decisive.rank.model
    tokens = workload.prompt_tokens + workload.output_tokens + guessed_tokens(workload)
    states = workload.num_sequences * model.spec.hidden_size * workload.weight_dtype.bytes_per_element
    return Filled(
        num_gpus=layout.num_gpus,
        parts=(*decisive.parts, _pool_part(pool, terms.source)),
        pool_bytes=pool.bytes,
        pool_tokens=pool.tokens,
        token_bytes=_token_bytes(decisive.rank, workload),
        asked_bytes=workload.num_sequences * pool.blocks_of(tokens) * pool.block_bytes,
        longest=pool.sequences_of(terms.max_model_len),
        smallest_bytes=max(
            holder.fixed_bytes + holder.pool.blocks_of(terms.max_model_len) * holder.pool.block_bytes for holder in holders
        ),
        max_num_sequences=int(pool.sequences_of(tokens)),
        budget_bytes=terms.budget_bytes,
        usable_bytes=terms.usable_bytes,
        max_model_len=terms.max_model_len,
        stages=tuple(_stage(index, holder, pool) for index, holder in enumerate(holders)),
        decode_bytes=decisive.rank.weight_bytes + pool.bytes + states,
        approximate=model.spec.approximate,
        warnings=_TOWER if model.images is not None else (),
    )


def _stage(index: int, holder: Holder, decisive: Pool) -> Stage:
    held = replace(holder.pool, num_blocks=decisive.num_blocks).bytes + holder.rank.weight_bytes
    return Stage(index, held + holder.peak_bytes, held)


def _token_bytes(rank: Rank, workload: ServeWorkload) -> int:
    """Return what a rank keeps for one token in all of its layers."""
    elements = sum(cache.elements_per_token * cache.count for cache in rank.caches)
    return elements * workload.kv_cache_dtype.bytes_per_element


def _pool_part(pool: Pool, source: str) -> Part:
    tokens = pool.paging.block_tokens
    blocks = f"{pool.num_blocks} blocks x {tokens} tokens x {pool.block_bytes // tokens} B"
    return exact("kv_cache", pool.bytes, blocks, source)
