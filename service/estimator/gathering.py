"""Full-size weights and gradients that a rank holds for a moment when parameters are sharded."""

from dataclasses import dataclass

from service.estimator.architecture import Architecture
from service.estimator.layout import Layout, Sharding
from service.estimator.precision import Precision
from service.estimator.states import Shards
from service.estimator.tape.ledger import Section

DEEPSPEED_BUCKET_ELEMENTS = 500_000_000
"""DeepSpeed's default ``reduce_bucket_size`` and ``stage3_prefetch_bucket_size`` upper bound (runtime/zero/config.py)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """Bytes beyond the shards during one section: gathered weights, and full-size gradients with their buffers."""

    weights: int = 0
    buffers: int = 0


def gathered(model: Architecture, precision: Precision, layout: Layout, section: Section, *, trains_all: bool) -> Gathered:
    """Return what sharding adds during a section of the step (torch/distributed/fsdp/_fully_shard, counted on traced ranks).

    Forward holds the root unit, the current block and the all-gather of the next; the loss holds the root and, at the start of
    backward, the block that is gathered first; backward holds as well the block's gradients and two reduce-scatter inputs.
    """
    if Shards.of(layout).weights == 1:
        return Gathered()
    width = precision.compute_dtype.bytes_per_element
    counts = model.parameter_counts()
    block, root = counts.largest_block, counts.outside_blocks
    if not layout.reshard_after_forward:
        return Gathered(weights=counts.total * width)
    if section in {Section.FORWARD, Section.BACKWARD}:
        reduced = precision.grad_dtype.bytes_per_element
        return Gathered(
            weights=(root + 2 * block) * width,
            buffers=block * (width + reduced) if section is Section.BACKWARD and trains_all else 0,
        )
    return Gathered(weights=(root + block * (section is Section.LOSS_BACKWARD)) * width)


def bucket_bytes(model: Architecture, layout: Layout, *, trained: int, grad_bytes: int) -> int:
    """Return the persistent communication buffers: DDP's buckets are a second copy of all gradients.

    (torch.nn.parallel.DistributedDataParallel, ``gradient_as_bucket_view=False``); DeepSpeed reduces in buckets of its own.
    """
    if layout.shards == 1:
        return 0
    if layout.sharding is Sharding.DDP:
        return trained * grad_bytes
    if layout.sharding is Sharding.DEEPSPEED and layout.zero_stage:
        return min(trained, max(DEEPSPEED_BUCKET_ELEMENTS, model.parameter_counts().largest_block)) * grad_bytes
    return 0
