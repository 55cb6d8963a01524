"""Single steps from a configuration that does not fit towards one that might, in the order in which a person would try them."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from service.estimator.layout import Layout, Sharding
from service.estimator.workload import Attention, Checkpointing, Lora, Method, ServeWorkload, TrainWorkload, Workload

Config = tuple[Workload, Layout]
Move = Callable[[Config], Iterator[Config]]
"""Yields every configuration that this step leads to; none where the step is taken already or makes no sense."""
MAX_DATA_PARALLEL = 1024


def fused_optimizer(config: Config) -> Iterator[Config]:
    """Use AdamW's fused kernel, which needs no temporaries of the size of the parameters."""
    match config:
        case (TrainWorkload(optimizer="adamw" | "adamw_loop") as workload, layout):
            yield replace(workload, optimizer="adamw_fused"), layout


def dropped_logits(config: Config) -> Iterator[Config]:
    """Drop the logits before backward."""
    match config:
        case (TrainWorkload(keeps_logits=True) as workload, layout):
            yield replace(workload, keeps_logits=False), layout


def flash_attention(config: Config) -> Iterator[Config]:
    """Use a kernel that never writes the attention scores."""
    workload, layout = config
    if workload.attention in {Attention.EAGER, Attention.MATH}:
        yield replace(workload, attention=Attention.FLASH), layout


def smaller_micro_batch(config: Config) -> Iterator[Config]:
    """Halve the micro batch, and again, and accumulate so that the global batch stays."""
    match config:
        case (TrainWorkload() as workload, layout):
            size, steps = workload.micro_batch_size, workload.gradient_accumulation_steps
            while size % 2 == 0:
                size, steps = size // 2, steps * 2
                yield replace(workload, micro_batch_size=size, gradient_accumulation_steps=steps), layout


def higher_zero_stage(config: Config) -> Iterator[Config]:
    """Shard more of the states over the data-parallel ranks that are there."""
    workload, layout = config
    if isinstance(workload, ServeWorkload) or layout.sharding not in {Sharding.DDP, Sharding.DEEPSPEED}:
        return
    if layout.shards > 1:
        for stage in range(layout.zero_stage + 1, 4):
            yield workload, replace(layout, zero_stage=stage, sharding=Sharding.DEEPSPEED)


def full_checkpointing(config: Config) -> Iterator[Config]:
    """Keep the inputs of the layers and compute the rest again in backward."""
    match config:
        case (TrainWorkload(activation_checkpointing=Checkpointing.NONE | Checkpointing.SELECTIVE) as workload, layout):
            yield replace(workload, activation_checkpointing=Checkpointing.FULL), layout


def more_ranks(config: Config) -> Iterator[Config]:
    """Shard everything over twice the data-parallel ranks, and twice again."""
    workload, layout = config
    if isinstance(workload, ServeWorkload) or layout.sharding is Sharding.MEGATRON:
        return
    sharded = layout if layout.sharding is Sharding.FSDP2 else replace(layout, zero_stage=3, sharding=Sharding.DEEPSPEED)
    ranks = layout.data_parallel * 2
    while ranks <= MAX_DATA_PARALLEL:
        yield workload, replace(sharded, data_parallel=ranks)
        ranks *= 2


def lora(config: Config) -> Iterator[Config]:
    """Train adapters of rank 16 on every linear layer, and leave the model as it is."""
    match config:
        case (TrainWorkload(method=Method.FULL) as workload, layout):
            yield replace(workload, method=Method.LORA, lora=Lora()), layout


def fewer_sequences(config: Config) -> Iterator[Config]:
    """Serve fewer sequences at once, a sixteenth less each time."""
    match config:
        case (ServeWorkload() as workload, layout):
            for left in sorted({workload.num_sequences * share // 16 for share in range(1, 16)} - {0}, reverse=True):
                yield replace(workload, num_sequences=left), layout


MOVES: tuple[Move, ...] = (
    fused_optimizer,
    dropped_logits,
    flash_attention,
    smaller_micro_batch,
    higher_zero_stage,
    full_checkpointing,
    more_ranks,
    lora,
    fewer_sequences,
)
