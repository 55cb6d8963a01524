"""The caching allocator, replayed over what a traced run allocated: block by block, in the order in which it happened."""

from dataclasses import dataclass

from service.estimator.memory.allocator.caching_allocator import BLOCK_BYTES, Block, allocator_of
from service.estimator.values.workload import Allocator
from worker.probes.trace.ledger import Ledger


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """Bytes after every event of a ledger: in blocks that are in use, and in segments that the allocator has taken."""

    in_blocks: list[int]
    reserved: list[int]


def replay(ledger: Ledger, kind: Allocator) -> Replay:
    """Run a ledger through an allocator that has the whole device to itself (``caching_allocator`` of the estimator)."""
    allocator = allocator_of(kind)
    blocks: dict[int, Block] = {}
    in_blocks: list[int] = []
    reserved: list[int] = []
    for event in ledger.order:
        if event >= 0:
            size = -(-ledger.births[event].num_bytes // BLOCK_BYTES)
            if size:  # a tensor without elements has no block
                blocks[event] = allocator.allocate(size)
        elif (block := blocks.pop(~event, None)) is not None:
            allocator.free(block)
        in_blocks.append(allocator.allocated * BLOCK_BYTES)
        reserved.append(allocator.reserved * BLOCK_BYTES)
    return Replay(in_blocks=in_blocks, reserved=reserved)
