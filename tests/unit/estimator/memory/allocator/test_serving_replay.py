"""Replay of a replica: weights, prompts, and decode steps that replace a cache."""

import pytest

from service.estimator.memory.allocator.caching_allocator import BLOCK_BYTES, make_allocator
from service.estimator.memory.allocator.kernel_buffers import KernelBuffers
from service.estimator.memory.allocator.pressure import DeviceFullError, limit_allocator
from service.estimator.memory.allocator.serving_replay import (
    MAX_CONSECUTIVE_STEPS,
    MAX_SPREAD_STEPS,
    ReplicaHistory,
    list_replayed_steps,
    replay_replica,
)
from service.estimator.tape import sizes
from service.estimator.tape.cache_log import CachePass, CacheTape
from service.estimator.tape.ledger import Category, Section
from service.estimator.values.units import MIB
from service.estimator.values.workload import Allocator

KERNELS = KernelBuffers(cublas_bytes=32 * MIB, num_processors=132, prefers_cudnn=True)
WEIGHT_BYTES = 100 * MIB


def _log_pass(section: Section) -> CachePass:
    """Log a pass of one tensor in the cache, of 1 MiB a token, after a product."""
    tape = CacheTape(section)
    tape.use_workspace()
    storage = tape.allocate(Category.KV_CACHE, sizes.per_token(MIB))
    tape.keep_cached(storage)
    tape.release(storage)
    if section is Section.DECODE:
        tape.drop_cached(1)
    return tape.log()


def _a_history(*, decoded: int) -> ReplicaHistory:
    return ReplicaHistory(
        loaded=(WEIGHT_BYTES,),
        dropped=(),
        inputs=(),
        prefill=_log_pass(Section.PREFILL),
        decode=_log_pass(Section.DECODE) if decoded else None,
        num_sequences=1,
        prompt_tokens=16,
        cached_tokens=16 + decoded,
    )


def test_a_prompt_adds_its_cache_and_a_workspace() -> None:
    """Segments of the weights, of the workspace and of 16 MiB of cache, which a second prompt
    finds again.
    """
    allocator = make_allocator(Allocator.DEFAULT)

    workspace_bytes = replay_replica(allocator, _a_history(decoded=0), KERNELS)

    assert workspace_bytes == 32 * MIB
    assert allocator.reserved * BLOCK_BYTES == WEIGHT_BYTES + 32 * MIB + 16 * MIB
    assert allocator.allocated * BLOCK_BYTES == WEIGHT_BYTES + 32 * MIB


def test_a_decode_step_holds_the_old_cache_while_it_makes_the_new_one() -> None:
    """Both are in use at once; the new one, of 17 MiB, has the whole of a segment of 18."""
    allocator = make_allocator(Allocator.DEFAULT)

    replay_replica(allocator, _a_history(decoded=1), KERNELS)

    assert allocator.highest * BLOCK_BYTES == WEIGHT_BYTES + 32 * MIB + (16 + 18) * MIB


def test_a_full_gpu_releases_what_no_step_uses() -> None:
    """Every step needs a larger tensor than any before it: segments that are left go back."""
    unlimited, limited = (make_allocator(Allocator.DEFAULT) for _ in range(2))
    room_bytes = WEIGHT_BYTES + (32 + 27 + 28) * MIB
    limit_allocator(limited, room_bytes // BLOCK_BYTES)

    replay_replica(unlimited, _a_history(decoded=8), KERNELS)
    replay_replica(limited, _a_history(decoded=8), KERNELS)

    assert limited.reserved * BLOCK_BYTES <= room_bytes < unlimited.reserved * BLOCK_BYTES


def test_what_has_no_room_at_all_runs_out_of_memory() -> None:
    """Two tensors of the cache are in use at once, and there is room for one."""
    allocator = make_allocator(Allocator.DEFAULT)
    limit_allocator(allocator, (WEIGHT_BYTES + (32 + 20) * MIB) // BLOCK_BYTES)

    with pytest.raises(DeviceFullError):
        replay_replica(allocator, _a_history(decoded=1), KERNELS)


@pytest.mark.parametrize(("cached_tokens", "num_steps"), [(10, 0), (11, 1), (20, 10), (5000, 24)])
def test_few_of_many_steps_are_replayed(cached_tokens: int, num_steps: int) -> None:
    """The first ones and the last are always among them, each once."""
    steps = list_replayed_steps(10, cached_tokens)

    assert len(steps) == num_steps <= MAX_CONSECUTIVE_STEPS + MAX_SPREAD_STEPS
    assert steps == sorted(set(steps))
    assert steps[-1:] == ([cached_tokens] if num_steps else [])
