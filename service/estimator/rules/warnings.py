"""Warnings about ineffective options and unread versions."""

from collections.abc import Iterator

from service.estimator.memory.adapter_bases import resolve_base_weights
from service.estimator.memory.kv_cache import compiles_decode
from service.estimator.model.adapters.stacks import build_stack_adapters
from service.estimator.model.architecture import Architecture
from service.estimator.model.library_versions import NEWEST_READ, parse_transformers_release
from service.estimator.model.positions import count_scaled_positions
from service.estimator.model.quantization.loading import LEFT_EXPERTS, has_unquantised_experts
from service.estimator.model.trees.encoder_decoder import EncoderDecoder
from service.estimator.values.backend import Backend
from service.estimator.values.engine_versions import parse_version
from service.estimator.values.layout import (
    FULLY_SHARDED,
    MAX_ZERO_STAGE,
    ContextMethod,
    Layout,
    Sharding,
)
from service.estimator.values.units import ceil_div, format_bytes
from service.estimator.values.workload import (
    Allocator,
    Attention,
    Checkpointing,
    Engine,
    Framework,
    Lora,
    Offload,
    OffloadTarget,
    ServeWorkload,
    TrainWorkload,
    Workload,
)


def list_effect_warnings(
    model: Architecture, workload: Workload, layout: Layout, backend: Backend
) -> tuple[str, ...]:
    """Return a warning for each ineffective option and unread version.

    A sequence beyond the model's positions has one too.
    """
    unpacked = () if model.unpacked is None else (model.unpacked.reason,)
    if isinstance(workload, ServeWorkload):
        return (
            *unpacked,
            *_iter_length_warnings(model, workload.prompt_tokens + workload.output_tokens),
            *_iter_serving_warnings(workload, layout, backend),
            *((_COMPILED,) if compiles_decode(model, workload) else ()),
        )
    return (
        *unpacked,
        *_iter_length_warnings(model, workload.sequence_length),
        *_iter_training_warnings(model, workload, layout),
    )


def _iter_length_warnings(model: Architecture, tokens: int) -> Iterator[str]:
    """Yield a warning for rotary positions beyond the training length.

    Learned ones are refused elsewhere.
    """
    max_positions = count_scaled_positions(model.spec)
    if model.spec.rotary and 0 < max_positions < tokens and not isinstance(model, EncoderDecoder):
        yield (
            f"a sequence of {tokens:,} tokens is longer than max_position_embeddings "
            f"{max_positions:,}, which the model was made for"
        )


_COMPILED = (
    "generate() compiles its steps over a static cache: their tensors are counted as the model's "
    "code makes them, and the pool of their CUDA graphs has no term"
)
_CAPTURING = frozenset({Engine.TENSORRT_LLM, Engine.TGI})
"""Engines that capture decode steps unless they are told not to (TensorRT-LLM 1.2
``llmapi/llm_args.py``, ``cuda_graph_config``; text-generation-inference 3.3.5
``models/flash_causal_lm.py``, ``warmup``).
"""


def _iter_serving_warnings(
    workload: ServeWorkload, layout: Layout, backend: Backend
) -> Iterator[str]:
    for name, is_set in _list_training_options(layout):
        if is_set:
            yield f"{name} has no effect in serving"
    version, newest = workload.engine_version, backend.newest_release
    if version is not None and newest is not None and parse_version(version) > newest:
        yield (
            f"engine_version {version} was not read: the answer is that of {newest}, the newest "
            "that was"
        )
    if workload.engine is Engine.TRANSFORMERS:
        return
    if workload.allocator is not Allocator.DEFAULT:
        yield (
            f"allocator {workload.allocator.value} has no effect: {workload.engine.value} fills "
            "its memory when it starts"
        )
    if workload.enforce_eager and not backend.counts_cuda_graphs:
        yield f"enforce_eager has no effect: no CUDA graphs of {workload.engine.value} are counted"
    elif workload.engine in _CAPTURING and workload.output_tokens:
        yield f"the pool of {workload.engine.value}'s CUDA graphs has no term: add it"
    decides = {Attention.SDPA} if backend.owns_kernels else {Attention.SDPA, Attention.EAGER}
    if workload.engine is Engine.LMDEPLOY:
        yield (
            "the answer is TurboMind's: what LMDeploy runs on its PyTorch engine captures CUDA "
            "graphs, whose pool has no term"
        )
    if workload.attention not in decides:
        yield (
            f"attention {workload.attention.value} has no effect: {workload.engine.value} chooses "
            "a kernel of its own"
        )


def _list_training_options(layout: Layout) -> tuple[tuple[str, bool], ...]:
    return (
        ("reshard_after_forward false", not layout.reshard_after_forward),
        ("shard_embeddings_separately", layout.shard_embeddings_separately),
        ("shard_size", layout.shard_size is not None),
        ("host_memory_bytes", layout.host_memory_bytes is not None),
        ("nvme_bytes", layout.nvme_bytes is not None),
        ("context_parallel_method", layout.context_parallel_method is not ContextMethod.RING),
    )


def _iter_training_warnings(
    model: Architecture, workload: TrainWorkload, layout: Layout
) -> Iterator[str]:
    gathers = (
        layout.shards > 1
        and layout.zero_stage == MAX_ZERO_STAGE
        and layout.sharding in FULLY_SHARDED
    )
    if not layout.reshard_after_forward and not gathers:
        where = (
            "one data-parallel rank" if layout.shards == 1 else f"sharding {layout.sharding.value}"
        )
        yield (
            f"reshard_after_forward false has no effect on {where}, which gathers no parameters by "
            "fully_shard"
        )
    if not workload.fp32_outputs and not workload.precision.autocast:
        yield "fp32_outputs false has no effect without autocast, beside which alone they are cast"
    if layout.shard_embeddings_separately and layout.shards == 1:
        yield "shard_embeddings_separately has no effect on one data-parallel rank"
    if layout.host_memory_bytes is not None and workload.offload == Offload():
        yield "host_memory_bytes has no effect: nothing is kept on the host"
    if layout.nvme_bytes is not None and "nvme" not in {
        workload.offload.optimizer,
        workload.offload.parameters,
    }:
        yield "nvme_bytes has no effect: nothing is swapped to NVMe"
    if layout.expert_tensor_parallel is not None and not model.spec.num_experts:
        yield f"expert_tensor_parallel has no effect: {model.family} has no experts"
    if workload.framework is not Framework.TRANSFORMERS and workload.save_total_limit is not None:
        yield f"save_total_limit has no effect: {workload.framework.value} has no such word"
    if workload.framework is Framework.MEGATRON and workload.optimizer == "adamw":
        yield (
            "optimizer adamw is Transformer Engine's FusedAdam in Megatron-LM, the same as "
            "adamw_fused"
        )
    if workload.framework is Framework.TRANSFORMERS and workload.framework_version is not None:
        yield from _iter_release_warnings(workload.framework_version)
    yield from _iter_fetch_warnings(model, workload, layout)
    yield from _iter_adapter_warnings(model, workload, layout)


_LORA_KERNELS = (
    "lora.kernels: the tensors of axolotl 0.19's functions are counted, and nobody has measured a "
    "GPU with them"
)
_SHARDED_KERNELS = (
    "lora.kernels over sharded weights are counted as PEFT's modules, which take more: axolotl "
    "turns them on under DDP, ZeRO-1, ZeRO-2 and FSDP2"
)


def _iter_adapter_warnings(
    model: Architecture, workload: TrainWorkload, layout: Layout
) -> Iterator[str]:
    if workload.lora is not None and workload.lora.kernels:
        yield _SHARDED_KERNELS if layout.zero_stage == MAX_ZERO_STAGE else _LORA_KERNELS
    if workload.lora is not None and adapts_experts(model, workload.lora):
        yield (
            f"all-linear adapts the {model.spec.num_experts} experts of each layer as well; "
            "target_modules can name attention's layers alone"
        )
    if has_unquantised_experts(model, resolve_base_weights(model, workload).scheme):
        yield LEFT_EXPERTS


_REUSE_ELEMENTS = 1_000_000_000
"""DeepSpeed's default ``stage3_max_reuse_distance``: parameters that pass by until the next use."""


def _iter_fetch_warnings(
    model: Architecture, workload: TrainWorkload, layout: Layout
) -> Iterator[str]:
    """Yield what stage 3 keeps gathered beyond its use.

    Until backward comes to a layer the rest of forward passes by, the head twice, and backward
    through what lies behind, which is computed again under checkpoints (DeepSpeed 0.19
    ``partitioned_param_coordinator.py``, ``__params_to_release``).
    """
    fetches = layout.shards > 1 or workload.offload.parameters is not OffloadTarget.NONE
    stage_3 = layout.sharding is Sharding.DEEPSPEED and layout.zero_stage == MAX_ZERO_STAGE
    block = model.counts.largest_block
    if not (fetches and stage_3 and block):
        return
    visits = 3 if workload.activation_checkpointing is Checkpointing.FULL else 2
    room = _REUSE_ELEMENTS - 2 * model.vocab_size * model.spec.hidden_size
    num_kept = min(ceil_div(max(room, 0), visits * block), model.num_hidden_layers)
    if num_kept:
        kept_bytes = num_kept * block * workload.precision.compute_dtype.bytes_per_element
        yield (
            f"DeepSpeed keeps parameters of the last layers ({num_kept}) from forward to backward "
            f"(stage3_max_reuse_distance, 1e9 by default): {format_bytes(kept_bytes)} that have no "
            "term"
        )


def adapts_experts(model: Architecture, lora: Lora) -> bool:
    """Return whether adapters are ``all-linear``, and that has stacks of experts."""
    stacks = build_stack_adapters(model.family, lora)
    return lora.targets is None and stacks is not None and stacks.down > 0


def _iter_release_warnings(version: str) -> Iterator[str]:
    release = parse_transformers_release(version)
    newest = ".".join(str(part) for part in NEWEST_READ)
    if release is not None and release > NEWEST_READ:
        yield (
            f"framework_version {version} was not read: the answer is that of {newest}, the newest "
            "that was"
        )
    elif release is not None and release < NEWEST_READ:
        yield (
            f"layers are those of transformers {newest}: of older ones logits, labels and experts "
            "alone are known to differ"
        )
