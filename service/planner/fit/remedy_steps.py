"""Single steps from a configuration that does not fit towards one that might, in the order in which a person would try them."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from service.estimator.values.dtypes import DType
from service.estimator.values.layout import FULLY_SHARDED, Layout, Sharding
from service.estimator.values.workload import (
    Attention,
    Checkpointing,
    Engine,
    Framework,
    Lora,
    Loss,
    Method,
    Offload,
    OffloadTarget,
    Quantization,
    ServeWorkload,
    TrainWorkload,
    Workload,
)

Config = tuple[Workload, Layout]
Move = Callable[[Config], Iterator[Config]]
"""Yields every configuration that this step leads to; none where the step is taken already or makes no sense."""
MAX_DATA_PARALLEL = 1024
MAX_PIPELINE_PARALLEL = 16
SPLITTING = frozenset({Engine.VLLM, Engine.SGLANG, Engine.TENSORRT_LLM})
"""Engines that spread a replica over tensor-parallel ranks, whatever the model, and keep an fp8 cache."""


_ADAMW = frozenset({"adamw", "adamw_loop", "adamw_fused", "adamw_foreach", "adamw_bnb"})
_EIGHT_BITS = ("adamw_8bit", "paged_adamw_8bit")
_MEMORY_SAVING_LOSSES = (Loss.FUSED_CROSS_ENTROPY, Loss.CHUNKED, Loss.FUSED_LINEAR)
FORMATS = {
    Engine.TRANSFORMERS: (Quantization.INT8, Quantization.NF4),
    Engine.VLLM: (Quantization.FP8, Quantization.AWQ_INT4),
    Engine.SGLANG: (Quantization.FP8, Quantization.AWQ_INT4),
    Engine.TENSORRT_LLM: (Quantization.FP8, Quantization.AWQ_INT4),
    Engine.LLAMA_CPP: (Quantization.Q8_0, Quantization.Q4_K_M),
}
"""Formats of weights that each engine reads, the wider one first."""


def fused_optimizer(config: Config) -> Iterator[Config]:
    """Use AdamW's fused kernel, which needs no temporaries of the size of the parameters."""
    match config:
        case (TrainWorkload(optimizer="adamw" | "adamw_loop") as workload, layout):
            yield replace(workload, optimizer="adamw_fused"), layout


def smaller_states(config: Config) -> Iterator[Config]:
    """Keep AdamW's moments in 8 bits, and then in memory that the driver moves to the host when the GPU is full."""
    match config:
        case (TrainWorkload(optimizer=name) as workload, layout) if name in {*_ADAMW, _EIGHT_BITS[0]}:
            for smaller in _EIGHT_BITS[_EIGHT_BITS.index(name) + 1 if name in _EIGHT_BITS else 0 :]:
                yield replace(workload, optimizer=smaller), layout


def smaller_loss(config: Config) -> Iterator[Config]:
    """Compute the loss without copies of the logits, in pieces, or in one kernel with the head."""
    match config:
        case (TrainWorkload(loss=Loss.FULL_LOGITS | Loss.FLASH_CROSS_ENTROPY) as workload, layout):
            for loss in _MEMORY_SAVING_LOSSES:
                yield replace(workload, loss=loss, keeps_logits=False), layout


def offloaded(config: Config) -> Iterator[Config]:
    """Keep the optimizer's states on the host, and then the parameters as well."""
    match config:
        case (TrainWorkload(offload=Offload(parameters=OffloadTarget.NONE) as held) as workload, layout):
            if workload.framework is not Framework.TRANSFORMERS or layout.tensor_parallel > 1:
                return
            fully = layout.sharding in {Sharding.FSDP1, Sharding.FSDP2}
            placed = layout if fully else replace(layout, sharding=Sharding.DEEPSPEED, zero_stage=max(layout.zero_stage, 2))
            states = replace(held, optimizer=OffloadTarget.CPU)
            if held != states and not fully:
                yield replace(workload, offload=states), placed
            yield replace(workload, offload=replace(states, parameters=OffloadTarget.CPU)), replace(placed, zero_stage=3)


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
    """Shard more of the states over the data-parallel ranks that are there; Megatron's distributed optimizer is stage 1."""
    workload, layout = config
    if layout.sharding is Sharding.MEGATRON and layout.shards > 1 and layout.zero_stage == 0:
        yield workload, replace(layout, zero_stage=1)
    if isinstance(workload, ServeWorkload) or layout.sharding not in {Sharding.DDP, Sharding.DEEPSPEED}:
        return
    if layout.shards > 1:
        for stage in range(layout.zero_stage + 1, 4):
            yield workload, replace(layout, zero_stage=stage, sharding=Sharding.DEEPSPEED)


def selective_checkpointing(config: Config) -> Iterator[Config]:
    """Compute again what is cheap to compute and large to keep, where the framework picks it in each layer."""
    match config:
        case (TrainWorkload(activation_checkpointing=Checkpointing.NONE) as workload, layout):
            if workload.framework is not Framework.TRANSFORMERS:
                yield replace(workload, activation_checkpointing=Checkpointing.SELECTIVE), layout


def full_checkpointing(config: Config) -> Iterator[Config]:
    """Keep the inputs of the layers and compute the rest again in backward."""
    match config:
        case (TrainWorkload(activation_checkpointing=Checkpointing.NONE | Checkpointing.SELECTIVE) as workload, layout):
            yield replace(workload, activation_checkpointing=Checkpointing.FULL, selective_every=None), layout


def more_ranks(config: Config) -> Iterator[Config]:
    """Shard everything that can be over twice the data-parallel ranks, and twice again."""
    workload, layout = config
    if isinstance(workload, ServeWorkload):
        return
    sharded = _fully_sharded(workload, layout)
    ranks = layout.data_parallel * 2
    while ranks <= MAX_DATA_PARALLEL:
        yield workload, replace(sharded, data_parallel=ranks)
        ranks *= 2


def _fully_sharded(workload: TrainWorkload, layout: Layout) -> Layout:
    if workload.framework is Framework.MEGATRON:
        return replace(layout, zero_stage=max(layout.zero_stage, 1), sharding=Sharding.MEGATRON)
    if workload.framework is Framework.TORCHTITAN or layout.sharding in FULLY_SHARDED:
        return replace(layout, zero_stage=3, sharding=layout.sharding if layout.sharding in FULLY_SHARDED else Sharding.FSDP2)
    return replace(layout, zero_stage=3, sharding=Sharding.DEEPSPEED)


def more_stages(config: Config) -> Iterator[Config]:
    """Spread Megatron's layers over twice the pipeline stages, and twice again."""
    match config:
        case (TrainWorkload(framework=Framework.MEGATRON) as workload, layout):
            stages = layout.pipeline_parallel * 2
            while stages <= MAX_PIPELINE_PARALLEL:
                yield workload, replace(layout, pipeline_parallel=stages, sharding=Sharding.MEGATRON)
                stages *= 2


def lora(config: Config) -> Iterator[Config]:
    """Train adapters of rank 16 on every linear layer, and leave the model as it is."""
    match config:
        case (TrainWorkload(method=Method.FULL) as workload, layout):
            yield replace(workload, method=Method.LORA, lora=Lora()), layout


def qlora(config: Config) -> Iterator[Config]:
    """Train adapters on a model in 4 bits (arXiv:2305.14314)."""
    match config:
        case (TrainWorkload(method=Method.FULL | Method.LORA) as workload, layout):
            yield replace(workload, method=Method.QLORA, lora=workload.lora or Lora()), layout


def quantized_weights(config: Config) -> Iterator[Config]:
    """Serve weights of fewer bits, in formats that the engine reads."""
    match config:
        case (ServeWorkload(quantization=Quantization.NONE) as workload, layout):
            for quantization in FORMATS[workload.engine]:
                yield replace(workload, quantization=quantization), layout


def fewer_sequences(config: Config) -> Iterator[Config]:
    """Serve fewer sequences at once, a sixteenth less each time, and from there half as many each time."""
    match config:
        case (ServeWorkload() as workload, layout):
            halves = {workload.num_sequences >> power for power in range(5, workload.num_sequences.bit_length())}
            for left in sorted({workload.num_sequences * share // 16 for share in range(1, 16)} | halves - {0}, reverse=True):
                if left:
                    yield replace(workload, num_sequences=left), layout


def split_replica(config: Config) -> Iterator[Config]:
    """Spread a replica, or Megatron's layers, over twice the tensor-parallel ranks, and twice again, within a node."""
    match config:
        case (ServeWorkload(engine=engine) as workload, layout) if engine in {*SPLITTING, Engine.TRANSFORMERS}:
            inside, split = layout.pipeline_parallel, layout
        case (TrainWorkload(framework=Framework.MEGATRON) as workload, layout):
            inside, split = 1, replace(layout, sharding=Sharding.MEGATRON)
        case _:
            return
    ranks, together = layout.tensor_parallel * 2, isinstance(workload, TrainWorkload)
    while ranks * inside <= layout.gpus_per_node:
        yield workload, replace(split, tensor_parallel=ranks, sequence_parallel=split.sequence_parallel or together)
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
    smaller_loss,
    smaller_states,
    selective_checkpointing,
    full_checkpointing,
    offloaded,
    lora,
    qlora,
    shorter_sequences,
    fp8_cache,
    quantized_weights,
    higher_zero_stage,
    smaller_micro_batch,
    fewer_sequences,
    more_stages,
    split_replica,
    more_ranks,
)
"""Those that go step by step come last: of two moves the second is taken as far as is needed."""
