"""What engines with one pool per rank have in common: a rank's fixed bytes, the pool of each stage, the one that decides."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from service.estimator.backends.paged_pool.blocks import Pool
from service.estimator.backends.paged_pool.pool import Filled, Part, Place, exact
from service.estimator.backends.paged_pool.rank_memory import Rank
from service.estimator.model.families.speculative import guessed_tokens
from service.estimator.values.layout import Layout
from service.estimator.values.result import Stage
from service.estimator.values.workload import ServeWorkload

_TOWER = ("the engine profiles the model's vision tower as well, whose own work is not counted",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A rank and the pool that it could have; ``parts`` are all but the pool, ``fixed_bytes`` those inside of the budget."""

    rank: Rank
    fixed_bytes: int
    parts: tuple[Part, ...]
    pool: Pool


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """Where the pool is told about: its source, the engine's budget of a GPU, and the longest sequence that it accepts."""

    source: str
    budget_bytes: int
    usable_bytes: int
    max_model_len: int


def held_by(ranks: Sequence[Rank], make: Callable[[Rank], Holder]) -> tuple[Holder, ...]:
    """Return the holder of each rank; stages that are alike are one object, as their ranks are."""
    made = {id(rank): make(rank) for rank in {id(rank): rank for rank in ranks}.values()}
    return tuple(made[id(rank)] for rank in ranks)


def filled(holders: Sequence[Holder], workload: ServeWorkload, layout: Layout, terms: Terms) -> Filled:
    """Return the stage that holds most, once every rank has as many blocks as the pool that has the fewest.

    Stages that are alike have one holder.
    """
    apart = {id(holder): holder for holder in holders}
    distinct = tuple(apart.values())
    decisive = min(distinct, key=lambda holder: holder.pool.num_blocks).pool
    held = {key: _held(holder, decisive) for key, holder in apart.items()}
    stages = tuple(Stage(index, *held[id(holder)]) for index, holder in enumerate(holders))
    worst_stage = max(range(len(stages)), key=lambda index: stages[index].allocated_bytes)
    worst = holders[worst_stage]
    pool, model = replace(worst.pool, num_blocks=decisive.num_blocks), worst.rank.model
    tokens = workload.prompt_tokens + workload.output_tokens + guessed_tokens(workload)
    states = workload.num_sequences * model.spec.hidden_size * workload.weight_dtype.bytes_per_element
    return Filled(
        num_gpus=layout.num_gpus,
        parts=(*worst.parts, _pool_part(pool, terms.source)),
        pool_bytes=pool.bytes,
        pool_tokens=decisive.tokens,
        token_bytes=_token_bytes(worst.rank, workload),
        asked_bytes=_asked_bytes(worst, workload.num_sequences, tokens),
        required=max(_required(holder, workload.num_sequences, tokens) for holder in distinct),
        longest=decisive.sequences_of(terms.max_model_len),
        smallest_bytes=max(
            holder.fixed_bytes + holder.pool.blocks_of(terms.max_model_len) * holder.pool.block_bytes for holder in distinct
        ),
        max_num_sequences=int(decisive.sequences_of(tokens)),
        budget_bytes=terms.budget_bytes,
        usable_bytes=terms.usable_bytes,
        max_model_len=terms.max_model_len,
        stages=stages,
        worst_stage=worst_stage,
        decode_bytes=worst.rank.weight_bytes + pool.bytes + states,
        approximate=model.spec.approximate,
        warnings=_TOWER if model.images is not None else (),
    )


def _asked_bytes(holder: Holder, num_sequences: int, tokens: int) -> int:
    return num_sequences * holder.pool.blocks_of(tokens) * holder.pool.block_bytes


def _required(holder: Holder, num_sequences: int, tokens: int) -> tuple[int, int]:
    """Return what a rank needs of its budget for all sequences, and the upper end of that."""
    fixed = [part for part in holder.parts if part.budgeted]
    asked = _asked_bytes(holder, num_sequences, tokens)
    return asked + sum(part.bytes for part in fixed), asked + sum(part.high for part in fixed)


def _held(holder: Holder, decisive: Pool) -> tuple[int, int]:
    """Return a stage's peak, and what it holds between steps."""
    held = replace(holder.pool, num_blocks=decisive.num_blocks).bytes + holder.rank.weight_bytes
    beside = sum(part.bytes for part in holder.parts if part.place is Place.ALLOCATED and part.name != "weights")
    return held + beside, held


def _token_bytes(rank: Rank, workload: ServeWorkload) -> int:
    """Return what a rank keeps for one token in all of its layers."""
    elements = sum(cache.elements_per_token * cache.count for cache in rank.caches)
    return elements * workload.kv_cache_dtype.bytes_per_element


def _pool_part(pool: Pool, source: str) -> Part:
    tokens = pool.paging.block_tokens
    blocks = f"{pool.num_blocks} blocks x {tokens} tokens x {pool.block_bytes // tokens} B"
    return exact("kv_cache", pool.bytes, blocks, source)
