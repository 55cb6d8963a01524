"""Single steps from a configuration that does not fit towards one that might, in the order in which a person would try them."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from service.estimator.dtypes import DType
from service.estimator.layout import Layout, Sharding
from service.estimator.workload import Attention, Checkpointing, Engine, Lora, Method, ServeWorkload, TrainWorkload, Workload

Config = tuple[Workload, Layout]
Move = Callable[[Config], Iterator[Config]]
"""Yields every configuration that this step leads to; none where the step is taken already or makes no sense."""
MAX_DATA_PARALLEL = 1024
SPLITTING = frozenset({Engine.VLLM, Engine.SGLANG, Engine.TENSORRT_LLM})
"""Engines that spread a replica over tensor-parallel ranks, whatever the model, and keep an fp8 cache."""


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
            yield replace(workload, activation_checkpointing=Checkpointing.FULL, selective_every=None), layout


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
    """Serve fewer sequences at once, a sixteenth less each time, and from there half as many each time."""
    match config:
        case (ServeWorkload() as workload, layout):
            halves = {workload.num_sequences >> power for power in range(5, workload.num_sequences.bit_length())}
            for left in sorted({workload.num_sequences * share // 16 for share in range(1, 16)} | halves - {0}, reverse=True):
                if left:
                    yield replace(workload, num_sequences=left), layout


def split_replica(config: Config) -> Iterator[Config]:
    """Spread a replica over twice the tensor-parallel ranks, and twice again, within a node."""
    match config:
        case (ServeWorkload(engine=engine) as workload, layout) if engine in SPLITTING:
            ranks = layout.tensor_parallel * 2
            while ranks * layout.pipeline_parallel <= layout.gpus_per_node:
                yield workload, replace(layout, tensor_parallel=ranks)
                ranks *= 2


def shorter_sequences(config: Config) -> Iterator[Config]:
    """Let the engine accept no longer sequences than are asked."""
    match config:
        case (ServeWorkload(engine=engine) as workload, layout) if engine in SPLITTING:
            tokens = workload.prompt_tokens + workload.output_tokens
            if workload.max_model_len != tokens:
                yield replace(workload, max_model_len=tokens), layout


def fp8_cache(config: Config) -> Iterator[Config]:
    """Keep keys and values in 8 bits."""
    match config:
        case (ServeWorkload(engine=engine) as workload, layout) if engine in SPLITTING:
            if workload.kv_cache_dtype is not DType.FP8:
                yield replace(workload, kv_cache_dtype=DType.FP8), layout


MOVES: tuple[Move, ...] = (
    fused_optimizer,
    dropped_logits,
    flash_attention,
    smaller_micro_batch,
    higher_zero_stage,
    full_checkpointing,
    more_ranks,
    lora,
    shorter_sequences,
    fp8_cache,
    fewer_sequences,
    split_replica,
)
