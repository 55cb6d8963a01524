"""Gathering of sharded parameters, and communication buffers."""

from dataclasses import dataclass

from service.estimator.memory.trained import PARAMETER_STAGE, Shards
from service.estimator.tape.units import FsdpConfig
from service.estimator.values.dtypes import DType
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.precision import Precision

DEEPSPEED_BUCKET_ELEMENTS = 500_000_000
"""DeepSpeed's default ``reduce_bucket_size`` (deepspeed 0.19 runtime/zero/config.py); one buffer of
that size, model or not.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Buckets:
    """Bytes of communication buffers.

    ``resident`` ones persist, ``backward`` ones live from the start of backward to its end.
    """

    resident: int = 0
    backward: int = 0


NO_BUCKETS = Buckets()


def resolve_gathering(
    precision: Precision,
    layout: Layout,
    *,
    offloads: bool = False,
    adapters: DType | None = None,
    reentrant: bool = False,
) -> FsdpConfig | None:
    """Return the gathering of parameters; None where ranks have them all.

    FSDP2 gathers on a single rank too, and so does a rank that ``offloads`` parameters. Under
    autocast it gathers parameters as they are: products cast them. DeepSpeed's stage 3 fetches
    module by module: the embedding gives way to the first block (deepspeed 0.19
    ``partitioned_param_coordinator.py``). FSDP1 wraps ``adapters`` of that dtype apart from frozen
    parameters, and gathers nothing ahead for blocks whose checkpoints are ``reentrant``. FSDP2 has
    them in the unit of their block, in their own dtype where it casts nothing: all are gathered as
    bytes (torch 2.13 ``_fsdp_collectives.py``, ``_get_all_gather_input_metadatas``).
    """
    if (
        Shards.from_layout(layout).weights == 1
        and layout.sharding is not Sharding.FSDP2
        and not offloads
    ):
        return None
    reduce_dtype = precision.reduce_dtype or precision.grad_dtype
    is_fsdp2 = layout.sharding is Sharding.FSDP2
    gathered = precision.param_dtype if precision.autocast and is_fsdp2 else precision.compute_dtype
    adapter_dtype = (
        adapters
        if adapters is not None and is_fsdp2 and gathered is precision.param_dtype
        else gathered
    )
    if adapter_dtype is not gathered and reduce_dtype is gathered:
        reduce_dtype = adapter_dtype
    return FsdpConfig(
        gather_bytes=gathered.bytes_per_element,
        adapter_bytes=adapter_dtype.bytes_per_element,
        reduce_bytes=reduce_dtype.bytes_per_element,
        reshard=layout.reshard_after_forward,
        single_rank=layout.shards == 1,
        splits_root=layout.shard_embeddings_separately or layout.sharding is Sharding.DEEPSPEED,
        fetches_modules=layout.sharding is Sharding.DEEPSPEED,
        flat_parameters=layout.sharding is Sharding.FSDP1,
        adapter_units=layout.sharding is Sharding.FSDP1 and adapters is not None,
        cast_ranks=layout.shards if is_fsdp2 and gathered is not precision.param_dtype else None,
        backward_prefetch=not reentrant,
    )


def compute_buckets(
    layout: Layout, precision: Precision, *, trained: int, param_bytes: int
) -> Buckets:
    """Return the communication buffers of a rank.

    DDP's buckets are a second copy of all gradients, in the parameters' dtype
    (torch.nn.parallel.DistributedDataParallel, ``gradient_as_bucket_view=False``; torch 2.13
    ``reducer.cpp``, ``initialize_buckets``). DeepSpeed's stages 1 and 2 allocate one contiguous
    bucket when backward begins (``setup_buckets``, ``overlap_comm`` off), stage 3 when it is made;
    its format is the engine's, whatever dtype adapters have.
    """
    if layout.sharding is Sharding.DEEPSPEED and layout.zero_stage:
        size = DEEPSPEED_BUCKET_ELEMENTS * precision.grad_dtype.bytes_per_element
        return (
            Buckets(resident=size)
            if layout.zero_stage == PARAMETER_STAGE
            else Buckets(backward=size)
        )
    if layout.shards > 1 and layout.sharding is Sharding.DDP:
        return Buckets(resident=trained * param_bytes)
    return NO_BUCKETS
