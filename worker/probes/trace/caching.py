"""Replay of the caching allocator over a traced run.

It goes block by block, in the order in which the run allocated.
"""

from dataclasses import dataclass

from service.estimator.memory.allocator.caching_allocator import BLOCK_BYTES, make_allocator
from service.estimator.memory.allocator.pool import Block
from service.estimator.values.workload import Allocator
from worker.probes.trace.ledger import Ledger


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """Bytes after every event of a ledger.

    ``in_blocks`` are in blocks in use, ``reserved`` in segments that the allocator has taken.
    """

    in_blocks: list[int]
    reserved: list[int]


def replay(ledger: Ledger, kind: Allocator) -> Replay:
    """Run a ledger through the caching allocator.

    The allocator has the full device to itself (the estimator's ``caching_allocator``).
    """
    allocator = make_allocator(kind)
    blocks: dict[int, Block] = {}
    in_blocks: list[int] = []
    reserved: list[int] = []
    for event in ledger.order:
        if event >= 0:
            size = -(-ledger.allocations[event].num_bytes // BLOCK_BYTES)
            if size:  # a tensor without elements has no block
                blocks[event] = allocator.allocate(size)
        elif (block := blocks.pop(~event, None)) is not None:
            allocator.free(block)
        in_blocks.append(allocator.allocated * BLOCK_BYTES)
        reserved.append(allocator.reserved * BLOCK_BYTES)
    return Replay(in_blocks=in_blocks, reserved=reserved)
