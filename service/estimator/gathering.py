"""What sharding and replication add on a rank: how units are gathered, and buckets that persist."""

from service.estimator.architecture import Architecture
from service.estimator.layout import Layout, Sharding
from service.estimator.precision import Precision
from service.estimator.states import Shards
from service.estimator.tape.units import Gathering

DEEPSPEED_BUCKET_ELEMENTS = 500_000_000
"""DeepSpeed's default ``reduce_bucket_size`` (deepspeed/runtime/zero/config.py)."""


def gathering(precision: Precision, layout: Layout) -> Gathering | None:
    """Return how parameters are gathered; None where every rank has them all. FSDP2 gathers on a single rank too."""
    if Shards.of(layout).weights == 1 and layout.sharding is not Sharding.FSDP2:
        return None
    reduce_dtype = precision.reduce_dtype or precision.grad_dtype
    return Gathering(
        gather_bytes=precision.compute_dtype.bytes_per_element,
        reduce_bytes=reduce_dtype.bytes_per_element,
        reshard=layout.reshard_after_forward,
        alone=layout.shards == 1,
        separate=layout.shard_embeddings_separately,
    )


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
